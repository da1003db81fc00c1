"""A layer of a mixture of experts in PyTorch, one problem at a time, as a child process of moe.ts; it answers as cublas.py does."""
import sys

from cublas import Torch, seed_of, serve


class Layer(Torch):
    def open(self, seed, p):
        torch = self.torch
        s, k, f, g, j = (p[name] for name in "skfgj")
        self.problem = p
        self.x = self.fill("bf16", [s, k], seed_of(seed, "X"))
        self.gated = torch.cat([self.fill("bf16", [g, k, f], seed_of(seed, name)) for name in ("gate", "up")], -1)
        self.down = self.fill("bf16", [g, f, k], seed_of(seed, "down"))

        def read(name, dtype):
            with open(p["files"][name], "rb") as stream:
                return torch.frombuffer(bytearray(stream.read()), dtype=dtype).to(self.device).view(s, j)

        self.experts, self.weights = read("experts", torch.int32).long(), read("weights", torch.float32)
        torch._dynamo.reset()
        self.variants = {"eager": self.layer, "compile": torch.compile(self.layer, dynamic=False)}
        self.short = set()
        return {"variants": list(self.variants)}

    def layer(self):
        torch, p, x = self.torch, self.problem, self.x
        s, k, f, g, j = (p[name] for name in "skfgj")
        chosen = self.experts.view(-1)
        order = chosen.argsort(stable=True)
        counts = torch.zeros(g, dtype=torch.int32, device=x.device).scatter_add_(0, chosen, torch.ones_like(chosen, dtype=torch.int32))
        ends = counts.cumsum(0).to(torch.int32)
        both = torch._grouped_mm(x[order // j], self.gated, offs=ends)
        hidden = torch.nn.functional.silu(both[:, :f]) * both[:, f:]
        rows = torch._grouped_mm(hidden, self.down, offs=ends) * self.weights.view(-1)[order].unsqueeze(1).to(x.dtype)
        back = torch.empty_like(rows)
        back[order] = rows
        return back.view(s, j, k).sum(1)

    def check(self, file, out, rows):
        """Of some tokens, in f32."""
        torch, p = self.torch, self.problem
        k, f, j = p["k"], p["f"], p["j"]
        with open(file, "rb") as stream:
            actual = torch.frombuffer(bytearray(stream.read()), dtype=torch.float32).to(self.device).view(-1, k)
        (start, end), = rows
        was, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, False
        expected = torch.zeros_like(actual)
        for token in range(start, end):
            x = self.x[token].float()
            for c in range(j):
                expert = int(self.experts[token, c])
                both = x @ self.gated[expert].float()
                hidden = torch.nn.functional.silu(both[:f]) * both[f:]
                expected[token - start] += self.weights[token, c] * (hidden @ self.down[expert].float())
        torch.backends.cuda.matmul.allow_tf32 = was
        error = (actual - expected).norm() / expected.norm()
        return {"error": float(error) if bool(torch.isfinite(error)) else None, "most": float((actual - expected).abs().max()), "rows": end - start}

    def close(self):
        self.x = self.gated = self.down = self.experts = self.weights = None
        self.variants = {}
        self.torch.cuda.synchronize()
        self.torch.cuda.empty_cache()
        return {}


if __name__ == "__main__":
    serve(Layer)
