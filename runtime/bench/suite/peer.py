"""PyTorch's side of a comparison, one problem at a time, as a child process of `ktl bench --suite`.

Reads one JSON object a line from stdin and answers each with one on stdout: hello, open, round, check, close. It touches the GPU
only between a request and its answer.
"""
import ctypes
import gc
import json
import math
import statistics
import sys

MASK = 0xFFFFFFFF
# Cycles of the GPU for each launch of a round: 30 to 50 us.
HEAD_START = 60_000


# Inputs: element i of the storage is a function of i and the seed in whole numbers, as runtime/bench/fill.ts makes it.

def mix(x):
    x = x ^ (x >> 16)
    x = (x * 0x7FEB352D) & MASK
    x = x ^ (x >> 15)
    x = (x * 0x846CA68B) & MASK
    return x ^ (x >> 16)


def sums(i, seed):
    """Works on ints and on int64 tensors: the sum of twelve uniform 16-bit numbers, less its mean."""
    key = mix((i + mix(seed & MASK)) & MASK)
    total = -393210
    for j in range(1, 7):
        word = mix((key + ((j * 0x9E3779B9) & MASK)) & MASK)
        total = total + (word & 0xFFFF) + (word >> 16)
    return total


def seed_of(seed, name):
    """As runtime/selftest/values.ts: every operand has a seed of its own."""
    h = (seed * 0x9E3779B1) & MASK
    for c in name:
        h = ((h ^ ord(c)) * 0x01000193) & MASK
    return h


class Torch:
    """Dense products, with the epilogues that both sides know by name."""

    def __init__(self):
        import torch

        self.torch = torch
        index = next((int(arg[9:]) for arg in sys.argv if arg.startswith("--device=")), 0)
        torch.cuda.set_device(index)
        self.device = torch.device("cuda", index)
        torch.backends.cuda.matmul.allow_tf32 = True
        self.types = {
            "bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "f64": torch.float64, "i8": torch.int8,
            "i32": torch.int32, "e4m3": getattr(torch, "float8_e4m3fn", None),
        }
        properties = torch.cuda.get_device_properties(index)
        self.l2 = getattr(properties, "L2_cache_size", 50 << 20)
        self.flushed = torch.empty(2 * self.l2 + (16 << 20), dtype=torch.uint8, device=self.device)
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.events = []
        self.aside = torch.cuda.Event(enable_timing=True)
        self.name = properties.name

    def hello(self):
        torch = self.torch
        return {
            "device": self.name, "torch": torch.__version__, "cuda": torch.version.cuda, "l2Bytes": self.l2,
            "tf32": torch.backends.cuda.matmul.allow_tf32,
        }

    def fill(self, dtype, shape, seed):
        torch = self.torch
        count = math.prod(shape)
        out = torch.empty(count, dtype=self.types[dtype], device=self.device)
        step = 1 << 24
        for start in range(0, count, step):
            end = min(count, start + step)
            total = sums(torch.arange(start, end, dtype=torch.int64, device=self.device), seed)
            if dtype == "i8":
                value = (total >> 11).clamp(-127, 127)
            else:
                value = total.to(torch.float32) * (1.0 / 65536)
            out[start:end] = value.to(out.dtype)
        return out.view(shape)

    def stored(self, name, dtype, lead, rows, columns, order, seed):
        """[.., rows, columns], whatever its order in memory is."""
        if order:
            return self.fill(dtype, lead + [rows, columns], seed_of(seed, name))
        return self.fill(dtype, lead + [columns, rows], seed_of(seed, name)).transpose(-1, -2)

    def open(self, p, seed):
        """Operands as the problem has them: A is [.., m, k], B [.., k, n]."""
        s, fusion = p["shape"], p["fusion"]
        batch = [s["l"]] if "l" in s else []
        self.torch.backends.cuda.matmul.allow_tf32 = not p.get("exact")
        self.problem = p
        self.a = self.stored("A", p["a"], batch, s["m"], s["k"], p.get("orderA", "mk") == "mk", seed)
        self.b = self.stored("B", p["b"], batch, s["k"], s["n"], p["orderB"] == "kn", seed)
        self.extra = self.operands(fusion, p, batch, seed)
        return self.offer()

    def operands(self, fusion, p, batch, seed):
        m, n = p["shape"]["m"], p["shape"]["n"]
        shapes = {"n": [n], "m": batch + [m, 1], "mn": batch + [m, n]}
        given = fusion["operands"] if fusion else {}
        self.scalars = fusion["scalars"] if fusion else {}
        return {name: self.fill(p["out"], shapes[axes], seed_of(seed, name)) for name, axes in given.items()}

    def offer(self):
        """What it can do with them."""
        found = {name: self.variant(name) for name in self.problem["rivals"]}
        self.variants, self.short = {name: run for name, run in found.items() if run is not None}, set()
        return {"variants": list(self.variants)}

    def product(self):
        """The library's GEMM into memory that is allocated once."""
        torch, p, a, b = self.torch, self.problem, self.a, self.b
        if p["a"] == "e4m3":
            one = torch.ones((), dtype=torch.float32, device=self.device)
            fast = bool(p.get("fastAccumulation"))
            return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=self.types[p["out"]], use_fast_accum=fast)
        if p["a"] == "i8":
            return lambda: torch._int_mm(a, b)
        out = torch.empty(a.shape[:-1] + b.shape[-1:], dtype=self.types[p["out"]], device=self.device)
        return lambda: torch.matmul(a, b, out=out)

    def library(self):
        """The fewest calls of the library for all of the problem."""
        torch, a, b, fusion = self.torch, self.a, self.b, self.problem["fusion"]
        product = self.product()
        if fusion is None:
            return product
        name, bias, c, alpha = fusion["name"], self.extra.get("bias"), self.extra.get("C"), self.scalars.get("alpha")
        F, flat, out = torch.nn.functional, a.dim() == 2, product()
        if name == "axpby":
            add = torch.addmm if flat else torch.baddbmm
            return lambda: add(c, a, b, alpha=alpha, out=out)
        if name == "relu_axpby":
            add = torch.addmm if flat else torch.baddbmm
            return lambda: add(c, a, b, alpha=alpha, out=out).relu_()
        if name == "bias" and flat:
            return lambda: torch.addmm(bias, a, b, out=out)
        if name in ("bias_relu", "gelu_tanh_bias") and flat and self.problem["a"] in ("bf16", "f16"):
            return lambda: torch._addmm_activation(bias, a, b, use_gelu=name == "gelu_tanh_bias")
        passes = self.epilogues(torch, F)[name]
        return lambda: passes(product(), bias, c, alpha)

    def variant(self, name):
        return {"plain": self.product, "library": self.library}[name]()

    def flush(self, byte):
        """As the other side: PyTorch's fill leaves L2 in another state, half a microsecond of small kernels."""
        pointer, stream = ctypes.c_void_p(self.flushed.data_ptr()), ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)
        status = self.driver.cuMemsetD8Async(pointer, ctypes.c_ubyte(byte), ctypes.c_size_t(self.flushed.numel()), stream)
        if status != 0:
            raise RuntimeError(f"cuMemsetD8Async: {status}")

    def round(self, variant, launches, warm):
        torch, run = self.torch, self.variants[variant]
        for _ in range(warm):
            run()
        torch.cuda.synchronize()
        while len(self.events) < 2 * launches:
            self.events.append(torch.cuda.Event(enable_timing=True))
        # Python needs longer for a launch than the GPU for a small kernel: it gets ahead while the GPU sleeps.
        if variant in self.short:
            torch.cuda._sleep(HEAD_START * launches)
        for i in range(launches):
            self.flush(i & 0xFF)
            for _ in range(i % 4):  # as runtime/bench/timer.ts
                self.aside.record()
            self.events[2 * i].record()
            run()
            self.events[2 * i + 1].record()
        torch.cuda.synchronize()
        times = [self.events[2 * i].elapsed_time(self.events[2 * i + 1]) for i in range(launches)]
        if statistics.median(times) < 0.1:
            self.short.add(variant)
        return {"ms": times}

    def columns(self):
        return self.problem["shape"]["n"]

    def check(self, file, out, rows):
        """Error of the rows of the other side's output that `file` holds; rows counted over the whole batch."""
        torch = self.torch
        with open(file, "rb") as stream:
            raw = torch.frombuffer(bytearray(stream.read()), dtype=torch.uint8).to(self.device)
        actual = raw.view(self.types[out]).view(-1, self.columns()).double()
        was = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = False
        try:
            expected = torch.cat([self.reference(start, end) for start, end in rows])
        finally:
            torch.backends.cuda.matmul.allow_tf32 = was
        norm = expected.norm()
        error = (actual - expected).norm() / norm if float(norm) > 0 else (actual - expected).norm()
        most = (actual - expected).abs().max()
        return {"error": float(error) if bool(torch.isfinite(error)) else None, "most": float(most), "rows": actual.shape[0]}

    def wide(self):
        """i8 is exact in f64; f32 that is not rounded and f64 are held against sums in f64."""
        p = self.problem
        return self.torch.float64 if p["a"] in ("i8", "f64") or p.get("exact") else self.torch.float32

    def decoded(self, name, data, wide):
        return data.to(wide)

    def reference(self, start, end):
        """In f32 of the same bits, or in f64, then the epilogue in f64."""
        torch, m, wide = self.torch, self.problem["shape"]["m"], self.wide()
        parts = []
        for batch in range(start // m, (end - 1) // m + 1):
            low, high = max(start, batch * m) - batch * m, min(end, (batch + 1) * m) - batch * m
            a = self.decoded("A", self.a[batch] if self.a.dim() == 3 else self.a, wide)[low:high]
            b = self.b[batch] if self.b.dim() == 3 else self.b
            acc = self.multiplied(a, b, wide).double()
            c = self.extra.get("C")
            parts.append(self.epilogue(acc, None if c is None else (c[batch] if c.dim() == 3 else c)[low:high].double()))
        return torch.cat(parts)

    def multiplied(self, a, b, wide):
        """In slices of columns: B may be large."""
        return self.torch.cat([a @ b[:, c:c + 8192].to(wide) for c in range(0, b.shape[1], 8192)], 1)

    @staticmethod
    def epilogues(torch, F):
        """By name, of acc, bias, C and alpha: with F of numbers of any precision."""
        return {
            "relu": lambda x, bias, c, alpha: F.relu(x), "silu": lambda x, bias, c, alpha: F.silu(x),
            "gelu": lambda x, bias, c, alpha: F.gelu(x), "gelu_tanh": lambda x, bias, c, alpha: F.gelu(x, approximate="tanh"),
            "sigmoid": lambda x, bias, c, alpha: torch.sigmoid(x), "tanh": lambda x, bias, c, alpha: torch.tanh(x),
            "softplus": lambda x, bias, c, alpha: F.softplus(x), "bias": lambda x, bias, c, alpha: x + bias,
            "bias_relu": lambda x, bias, c, alpha: F.relu(x + bias), "axpby": lambda x, bias, c, alpha: x * alpha + c,
            "gelu_tanh_bias": lambda x, bias, c, alpha: F.gelu(x + bias, approximate="tanh"),
            "relu_axpby": lambda x, bias, c, alpha: F.relu(x * alpha + c),
        }

    def epilogue(self, acc, c):
        fusion = self.problem["fusion"]
        if fusion is None:
            return acc
        bias = self.extra["bias"].double() if "bias" in self.extra else None
        return self.epilogues(self.torch, self.torch.nn.functional)[fusion["name"]](acc, bias, c, self.scalars.get("alpha"))

    def close(self):
        self.a = self.b = None
        self.extra, self.variants = {}, {}
        self.torch.cuda.synchronize()
        self.torch.cuda.empty_cache()
        return {}


def serve(make):
    """Answers requests by methods of what `make` makes when the first one comes."""
    gc.disable()  # no pauses while rounds run; tensors go by their counts
    side = None
    for line in sys.stdin:
        request = json.loads(line)
        name = request.pop("op")
        if name == "quit":
            return
        try:
            side = side or make()
            answer = {"ok": True, **getattr(side, name)(**request)}
        except Exception as error:  # told to the other side, which goes on with the next problem
            where = "" if side else f" (of {sys.executable}, Python {sys.version.split()[0]})"
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}{where}"}
        try:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
        except BrokenPipeError:  # the other side is gone
            sys.stderr.close()
            return


if __name__ == "__main__":
    serve(Torch)
