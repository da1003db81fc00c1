"""cuBLAS through PyTorch beside what runtime/bench/suite/peer.py compares: scales, groups, gated products, torch.compile.

A child process of compare.ts. With --fake there is no GPU and no PyTorch: times are made up (a roofline), results are computed in
plain Python, and inputs are the same bits; for tests of the other side on small problems.
"""
import math
import os
import random
import struct
import sys

sys.dont_write_bytecode = True
# Where the sources have it; bundles have it beside this file.
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../runtime/bench/suite"))
import peer  # noqa: E402
from peer import seed_of, serve, sums  # noqa: E402

FAKE = "--fake" in sys.argv


class Torch(peer.Torch):
    """The real thing."""

    def open(self, p, seed):
        """Operands as the problem has them: B is [.., k, n] whatever its order in memory is."""
        torch, s = self.torch, p["shape"]
        m, n, k = s["m"], s["n"], s["k"]
        fusion, sizes = p["fusion"], p.get("groups")
        gated = fusion is not None and fusion["name"] == "swiglu"
        self.scales = {}
        if sizes is None and not gated and not p.get("scales"):
            return super().open(p, seed)
        self.problem = p
        if sizes is not None:
            self.ends = [sum(sizes[:i + 1]) for i in range(len(sizes))]
            self.offs = torch.tensor(self.ends, dtype=torch.int32, device=self.device)
            self.rows = (torch.arange(m, device=self.device) * 7919) % m  # as ours.ts looks them up
        batch = [s["l"]] if "l" in s else []
        each = batch if sizes is None else [len(sizes)]
        self.a = a = self.fill(p["a"], batch + [m, k], seed_of(seed, "A"))
        if p.get("sums"):
            self.b, self.extra, self.scalars = self.fill(p["b"], [m, n], seed_of(seed, "B")), {}, {}
            return self.offer()

        def weight(name, columns):
            return self.stored(name, p["b"], each, k, columns, p["orderB"] == "kn", seed)

        if gated:
            # Gate and up side by side: one product, as the library has it.
            halves = [weight(name, n // 2) for name in ("Bg", "Bu")]
            b = torch.cat([h.transpose(-1, -2) for h in halves], -2).transpose(-1, -2) if p["orderB"] == "nk" else torch.cat(halves, -1)
        else:
            b = weight("B", n)
        self.b = b
        given = p.get("scales") or {}
        self.scales = {name: self.scale(name, given[name], a if name == "A" else b, seed) for name in given}
        if gated and given:
            halves = [self.scale(name, given["B"], half, seed) for name, half in zip(("Bg", "Bu"), halves)]
            self.scales["B"] = torch.cat(halves, -1)
        self.extra = self.operands(fusion, p, batch, seed)
        return self.offer()

    def scale(self, name, mode, data, seed):
        """[rows, columns] of blocks, in memory along m or n where each row has a scale of its own, else along k."""
        if data.dim() == 3:
            return self.fill("f32", [data.shape[0], data.shape[2]], seed_of(seed, name + ".scale"))
        counts = [-(-extent // block) for extent, block in zip(data.shape, mode) if block != "all"]
        swapped = len(counts) == 2 and (name == "A" or mode[1] == 128)
        values = self.fill("f32", counts[::-1] if swapped else counts, seed_of(seed, name + ".scale"))
        return values.t() if swapped else values

    def scaled(self):
        """Of torch 2.10 and later; B and its scales are given as their transposes lie in memory."""
        torch, p, a, b = self.torch, self.problem, self.a, self.b
        F = torch.nn.functional
        kinds = {(1, 128): F.ScalingType.BlockWise1x128, (128, 128): F.ScalingType.BlockWise128x128, (128, 1): F.ScalingType.BlockWise1x128}
        recipes, given = [], []
        for name in ("A", "B"):
            mode, scale = p["scales"][name], self.scales[name]
            if "all" in mode:
                recipes.append(F.ScalingType.RowWise)
                given.append(scale.view(-1, 1) if name == "A" else scale.view(1, -1))
            else:
                recipes.append(kinds[tuple(mode)])
                given.append(scale.t() if name == "B" and mode[1] == 1 else self.padded(scale) if mode[0] == mode[1] else scale)
        out = self.types[p["out"]]
        fast = "all" in p["scales"]["A"]
        return lambda: F.scaled_mm(a, b, given[0], recipes[0], given[1], recipes[1], output_dtype=out, use_fast_accum=fast)

    def padded(self, scale):
        """Of blocks of 128 x 128: as many along k as a multiple of 4."""
        k, n = scale.shape
        columns = self.torch.zeros(n, -(-k // 4) * 4, dtype=scale.dtype, device=scale.device)
        columns[:, :k] = scale.t()
        return columns.t()

    def decoded(self, name, data, wide):
        """Data times its scales."""
        data = data.to(wide)
        if name not in self.scales:
            return data
        scale, mode = self.scales[name].to(wide), self.problem["scales"][name]
        shape = [extent if block == "all" else -(-extent // block) for extent, block in zip(data.shape, mode)]
        scale = scale.reshape([1 if block == "all" else count for block, count in zip(mode, shape)])
        for axis, block in enumerate(mode):
            if block not in ("all", 1):
                scale = scale.repeat_interleave(block, axis).narrow(axis, 0, data.shape[axis])
        return data * scale

    def product(self):
        torch, p, a, b = self.torch, self.problem, self.a, self.b
        if p.get("groups") is not None:
            offs, out = self.offs, self.types[p["out"]]
            if p.get("sums"):
                return lambda: torch._grouped_mm(a.t(), b, offs=offs)
            if self.scales:
                sa, sb = self.scales["A"], self.scales["B"]
                return lambda: torch._scaled_grouped_mm(a, b, sa, sb, offs=offs, out_dtype=out, use_fast_accum=True)
            return lambda: torch._grouped_mm(a, b, offs=offs)
        return self.scaled() if self.scales else super().product()

    def eager(self):
        torch, p, a, b, extra = self.torch, self.problem, self.a, self.b, self.extra
        name = p["fusion"]["name"]
        F = torch.nn.functional
        if name == "relu_axpby":
            alpha, c = self.scalars["alpha"], extra["C"]
            return lambda: F.relu(torch.matmul(a, b) * alpha + c)
        if name == "gelu_tanh_bias":
            return lambda: F.gelu(torch.matmul(a, b) + extra["bias"], approximate="tanh")
        if name in ("router", "gather"):
            offs, rows, w = self.offs, self.rows, extra.get("w")
            if name == "router":
                return lambda: torch._grouped_mm(a, b, offs=offs) * w
            return lambda: torch._grouped_mm(a[rows], b, offs=offs)
        if name == "swiglu":
            half = b.shape[-1] // 2
            product = self.product()

            def swiglu():
                x = product()
                return F.silu(x[..., :half]) * x[..., half:]

            return swiglu
        raise KeyError(name)

    def variant(self, name):
        torch = self.torch
        if name == "eager":
            return self.eager()
        if name == "cublaslt":
            bias, a, b = self.extra["bias"], self.a, self.b
            return lambda: torch._addmm_activation(bias, a, b, use_gelu=True)
        if name == "compile":
            if "--compile" not in sys.argv:
                return None
            return torch.compile(self.eager(), mode="max-autotune-no-cudagraphs", dynamic=False)
        return super().variant(name)

    def columns(self):
        fusion = self.problem["fusion"]
        return super().columns() // (2 if fusion is not None and fusion["name"] == "swiglu" else 1)

    def multiplied(self, a, b, wide):
        return super().multiplied(a, self.decoded("B", b, wide) if self.scales else b, wide)

    def reference(self, start, end):
        if self.problem.get("groups") is not None:
            return self.grouped_reference(start, end, self.wide())
        return super().reference(start, end)

    def grouped_reference(self, start, end, wide):
        torch, p = self.torch, self.problem
        parts, begin = [], 0
        if p.get("sums"):
            k = p["shape"]["k"]
            for group, until in enumerate(self.ends):
                low, high = max(start - group * k, 0), min(end - group * k, k)
                if low < high:
                    parts.append((self.a[begin:until, low:high].to(wide).t() @ self.b[begin:until].to(wide)).double())
                begin = until
            return torch.cat(parts)
        for group, until in enumerate(self.ends):
            low, high = max(start, begin), min(end, until)
            begin = until
            if low >= high:
                continue
            a = self.a[self.rows[low:high]] if p["fusion"] and p["fusion"]["name"] == "gather" else self.a[low:high]
            a, b = a.to(wide), self.b[group].to(wide)
            if self.scales:
                a, b = a * self.scales["A"][low:high, None], b * self.scales["B"][group][None, :]
            w = self.extra.get("w")
            parts.append(self.epilogue((a @ b).double(), None if w is None else w[low:high].double()))
        return torch.cat(parts)

    @staticmethod
    def epilogues(torch, F):
        def swiglu(x, bias, c, alpha):
            half = x.shape[1] // 2
            return F.silu(x[:, :half]) * x[:, half:]

        more = {**{f"to {form}": lambda x, bias, c, alpha: x for form in ("fp8", "mxfp8", "i8")}, "swiglu": swiglu, "router": lambda x, bias, c, alpha: x * c, "gather": lambda x, bias, c, alpha: x}
        return {**peer.Torch.epilogues(torch, F), **more}


class Fake:
    """The same answers without PyTorch: roofline times with a little noise, exact sums of the same bits."""

    def __init__(self):
        self.random = random.Random(1)

    def hello(self):
        return {"device": "fake", "torch": "none", "cuda": "none", "l2Bytes": 0, "tf32": True}

    def open(self, p, seed):
        self.problem, self.seed = p, seed
        return {"variants": [v for v in p["rivals"] if v != "compile"]}

    def round(self, variant, launches, warm):
        s = self.problem["shape"]
        work = 2 * s["m"] * s["n"] * s["k"] * s.get("l", 1)
        base = 0.003 + work / 700e9 + (0 if variant == "plain" else s["m"] * s["n"] * 8 / 2.5e9)
        return {"ms": [base * self.random.uniform(0.99, 1.01) for _ in range(launches)]}

    @staticmethod
    def narrow(dtype, x):
        if dtype in ("f32", "tf32", "f64") or x == 0:
            return x
        # Significand bits and the least exponent of a normal number: round to nearest even at the last place.
        bits, least = {"f16": (11, -14), "bf16": (8, -126), "e4m3": (4, -6)}[dtype]
        unit = 2.0 ** (max(math.frexp(x)[1] - 1, least) + 1 - bits)
        return round(x / unit) * unit

    def element(self, dtype, name, i):
        total = sums(i, seed_of(self.seed, name))
        return max(-127, min(127, total >> 11)) if dtype == "i8" else self.narrow(dtype, total / 65536)

    def check(self, file, out, rows):
        p, s = self.problem, self.problem["shape"]
        m, n, k = s["m"], s["n"], s["k"]
        fusion = p["fusion"]["name"] if p["fusion"] else None
        sizes = p.get("groups")
        columns = n // 2 if fusion == "swiglu" else n
        with open(file, "rb") as stream:
            raw = stream.read()
        size = {"bf16": 2, "f16": 2, "f32": 4, "i32": 4, "f64": 8}[out]

        def decode(i):
            piece = raw[i * size:(i + 1) * size]
            if out == "bf16":
                return struct.unpack("<f", b"\0\0" + piece)[0]
            return struct.unpack({"f16": "<e", "f32": "<f", "i32": "<i", "f64": "<d"}[out], piece)[0]

        def product(name, width, batch, row, column):
            total = 0.0
            which = batch
            if sizes is not None:
                which = next(g for g in range(len(sizes)) if row < sum(sizes[:g + 1]))
                row = row * 7919 % m if fusion == "gather" else row
            for i in range(k):
                at = i * width + column if p["orderB"] == "kn" else column * k + i
                of_a = batch * m * k + (i * m + row if p.get("orderA") == "km" else row * k + i)
                total += self.element(p["a"], "A", of_a) * self.element(p["b"], name, which * k * width + at)
            if p.get("scales") and sizes is not None:
                total *= self.element("f32", "A.scale", row) * self.element("f32", "B.scale", which * width + column)
            return total

        def value(row, column):
            if p.get("sums"):
                group, row = divmod(row, k)
                rows = range(sum(sizes[:group]), sum(sizes[:group + 1]))
                return sum(self.element(p["a"], "A", i * k + row) * self.element(p["b"], "B", i * n + column) for i in rows)
            batch, row = divmod(row, m)
            if fusion == "swiglu":
                gate, up = (product(name, columns, batch, row, column) for name in ("Bg", "Bu"))
                return gate / (1 + math.exp(-gate)) * up
            acc = product("B", n, batch, row, column)
            given = p["fusion"]["operands"] if fusion else {}
            c = self.element(out, "C", (batch * m + row) * n + column) if "C" in given else None
            bias = self.element(out, "bias", column) if "bias" in given else None
            c = self.element(out, "w", row) if "w" in given else c
            return self.epilogue(fusion, acc, c, bias)

        wrong = right = most = 0.0
        counted = [row for start, end in rows for row in range(start, end)]
        for at in range(0, len(counted) * columns, max(1, len(counted) * columns // 64)):
            row, column = divmod(at, columns)
            expected = value(counted[row], column)
            difference = decode(at) - expected
            wrong, right, most = wrong + difference ** 2, right + expected ** 2, max(most, abs(difference))
        error = math.sqrt(wrong / right) if right else math.sqrt(wrong)
        return {"error": error if math.isfinite(error) else None, "most": most, "rows": len(counted)}

    @staticmethod
    def epilogue(name, acc, c, bias):
        def gelu_tanh(x):
            return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))

        def sigmoid(x):
            return 1 / (1 + math.exp(-x)) if x > -700 else 0.0

        table = {
            None: lambda: acc, "relu_axpby": lambda: max(0.0, acc * 2 + c), "gelu_tanh_bias": lambda: gelu_tanh(acc + bias),
            "relu": lambda: max(0.0, acc), "gelu_tanh": lambda: gelu_tanh(acc), "silu": lambda: acc * sigmoid(acc),
            "gelu": lambda: 0.5 * acc * (1 + math.erf(acc / math.sqrt(2))), "sigmoid": lambda: sigmoid(acc),
            "tanh": lambda: math.tanh(acc), "softplus": lambda: max(acc, 0.0) + math.log1p(math.exp(-abs(acc))),
            "bias": lambda: acc + bias, "bias_relu": lambda: max(0.0, acc + bias), "axpby": lambda: acc * 2 + c,
            "router": lambda: acc * c, "gather": lambda: acc,
        }
        return table[name]()

    def close(self):
        return {}


if __name__ == "__main__":
    serve(Fake if FAKE else Torch)
