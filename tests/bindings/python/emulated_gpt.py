"""A GPT-2 of two layers, dense or with experts, in NumPy. It rounds to narrow numbers where the engine does, and tests
precisions.

`rounding` has two methods: narrow(x) rounds to the type of stored numbers, and operand(key, x, over_tokens=False) returns
what a product of a block reads for x. The key is (name of the weight, role); the role is "x", "w" or "dy". With
`over_tokens`, the product is a weight's gradient, which sums over the first two dimensions of x; otherwise it sums over
the last. Sums are in float64.
"""

import numpy

VOCAB, CONTEXT, WIDTH, HEADS, HIDDEN, LAYERS = 41, 10, 24, 3, 56, 2
MODEL = {"vocab_size": VOCAB, "context": CONTEXT, "layers": LAYERS, "width": WIDTH, "heads": HEADS,
         "mlp": "gelu_tanh", "mlp_width": HIDDEN, "tied_head": False,
         "dropout": {"embedding": 0.0, "attention": 0.0, "residual": 0.0}}  # fmt: skip
EXPERTS, TOP_K = 4, 2
SPARSE_MODEL = {**MODEL, "bias": {"up": False, "down": False},
                "moe": {"experts": EXPERTS, "top_k": TOP_K, "width": 32, "layers": [1]}}  # fmt: skip


def draw_weights(engine, random):
    """Gives the engine random weights, and returns them."""
    p = {}
    for tensor in engine.tensors():
        matrix = len(tensor["shape"]) > 1
        value = random.normal(0, 0.3 if matrix else 0.1, tensor["shape"])
        if tensor["name"].endswith("norm.weight"):
            value += 1
        p[tensor["name"]] = single(value)
        engine.set_tensor(tensor["name"], value.astype(numpy.float32))
    return p


def single(x):
    with numpy.errstate(over="ignore"):
        return numpy.asarray(x).astype(numpy.float32).astype(numpy.float64)


def norm(x, weight, bias):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    rstd = 1 / numpy.sqrt(variance + 1e-5)
    normal = (x - mean) * rstd
    return normal * weight + bias, normal, rstd


def norm_backward(dy, normal, rstd, weight):
    d = dy * weight
    dx = rstd * (d - d.mean(-1, keepdims=True) - normal * (d * normal).mean(-1, keepdims=True))
    return dx, (dy * normal).sum((0, 1)), dy.sum((0, 1))


def gelu(h):
    c = numpy.sqrt(2 / numpy.pi)
    t = numpy.tanh(c * (h + 0.044715 * h**3))
    return 0.5 * h * (1 + t), 0.5 * (1 + t) + 0.5 * h * (1 - t * t) * c * (1 + 3 * 0.044715 * h * h)


def heads(x):
    return x.reshape(len(x), CONTEXT, HEADS, -1).transpose(0, 2, 1, 3)


def flat(x):
    return x.transpose(0, 2, 1, 3).reshape(len(x), CONTEXT, -1)


class Linear:
    """Weights that read the same input."""

    def __init__(self, rounding, p, names, x):
        self.rounding, self.names, self.x = rounding, names, x
        x = rounding.operand((names[0], "x"), x)
        self.w = {n: rounding.operand((n, "w"), rounding.narrow(p[f"{n}.weight"])) for n in names}
        self.biased = [n for n in names if f"{n}.bias" in p]
        self.y = [x @ self.w[n].T + p.get(f"{n}.bias", 0) for n in names]

    def backward(self, dy, grads):
        operand, dx = self.rounding.operand, 0
        x = operand((self.names[0], "x"), self.x, over_tokens=True)
        for name, d in zip(self.names, dy, strict=True):
            if name in self.biased:
                grads[f"{name}.bias"] = d.sum((0, 1))
            grads[f"{name}.weight"] = numpy.einsum("bti,btj->ij", operand((name, "dy"), d, over_tokens=True), x)
            dx = dx + operand((name, "dy"), d) @ self.w[name]
        return dx


class Attention:
    def __init__(self, rounding, p, name, x):
        self.narrow = narrow = rounding.narrow
        self.qkv = Linear(rounding, p, [f"{name}.{c}" for c in "qkv"], x)
        self.q, self.k, self.v = (heads(narrow(y)) for y in self.qkv.y)
        scores = self.q @ self.k.transpose(0, 1, 3, 2) / numpy.sqrt(WIDTH // HEADS)
        scores = numpy.where(numpy.tri(CONTEXT, dtype=bool), scores, -numpy.inf)
        e = numpy.exp(scores - scores.max(-1, keepdims=True))
        self.probability = e / e.sum(-1, keepdims=True)
        self.o = narrow(narrow(e) @ self.v / e.sum(-1, keepdims=True))
        self.out = Linear(rounding, p, [f"{name}.o"], flat(self.o))
        self.y = self.out.y[0]

    def backward(self, dy, grads):
        narrow, scale = self.narrow, 1 / numpy.sqrt(WIDTH // HEADS)
        d_o = heads(narrow(self.out.backward([dy], grads)))
        ds = self.probability * (d_o @ self.v.transpose(0, 1, 3, 2) - (d_o * self.o).sum(-1, keepdims=True))
        d = [narrow(ds) @ self.k * scale, narrow(ds).transpose(0, 1, 3, 2) @ self.q * scale,
             narrow(self.probability).transpose(0, 1, 3, 2) @ d_o]  # fmt: skip
        return self.qkv.backward([narrow(flat(value)) for value in d], grads)


class Mlp:
    def __init__(self, rounding, p, name, x):
        self.narrow = narrow = rounding.narrow
        self.up = Linear(rounding, p, [f"{name}.up"], x)
        self.h = narrow(self.up.y[0])
        self.down = Linear(rounding, p, [f"{name}.down"], narrow(gelu(self.h)[0]))
        self.y = self.down.y[0]

    def backward(self, dy, grads):
        narrow = self.narrow
        da = narrow(self.down.backward([dy], grads))
        return self.up.backward([narrow(da * gelu(self.h)[1])], grads)


class Mixture:
    """Experts that each token chooses by a softmax over logits in float32. All experts compute all tokens.
    The results of experts that a token did not choose are zero. A projection has one operand for each role, which all
    experts share."""

    def __init__(self, rounding, p, name, x):
        self.rounding, self.x, self.names = rounding, x, (f"{name}.experts.up", f"{name}.experts.down")
        up, down = self.names
        self.router, self.router_name = p[f"{name}.router.weight"], f"{name}.router.weight"
        logits = x @ self.router.T
        chosen = logits >= numpy.sort(logits)[..., -TOP_K, None]
        e = numpy.where(chosen, numpy.exp(logits - logits.max(-1, keepdims=True)), 0)
        self.weight = e / e.sum(-1, keepdims=True)
        narrow = rounding.narrow
        self.w = [rounding.operand((n, "w"), narrow(p[f"{n}.weight"])) for n in self.names]
        self.h = narrow(numpy.einsum("btc,efc->btef", rounding.operand((up, "x"), x), self.w[0]))
        self.a = narrow(self.weight[..., None] * gelu(self.h)[0])
        self.y = narrow(numpy.einsum("btef,ecf->btec", rounding.operand((down, "x"), self.a), self.w[1])).sum(2)

    def of_experts(self, x):
        """Returns x[b, t, e, c]: for each expert, the rows of the tokens that chose it; the others are zero."""
        return x[:, :, None] * (self.weight > 0)[..., None]

    def backward(self, dy, grads):
        operand, narrow, (up, down) = self.rounding.operand, self.rounding.narrow, self.names
        grads[f"{down}.weight"] = numpy.einsum(
            "btec,btef->ecf",
            operand((down, "dy"), self.of_experts(dy), over_tokens=True),
            operand((down, "x"), self.a, over_tokens=True),
        )
        da = narrow(numpy.einsum("btc,ecf->btef", operand((down, "dy"), dy), self.w[1])) * (self.weight > 0)[..., None]
        value, slope = gelu(self.h)
        dh = narrow(da * self.weight[..., None] * slope)
        grads[f"{up}.weight"] = numpy.einsum(
            "btef,btec->efc",
            operand((up, "dy"), dh, over_tokens=True),
            operand((up, "x"), self.of_experts(self.x), over_tokens=True),
        )
        dh = operand((up, "dy"), dh)
        dweight = (da * value).sum(-1)
        dlogits = self.weight * (dweight - (self.weight * dweight).sum(-1, keepdims=True))
        grads[self.router_name] = numpy.einsum("bte,btc->ec", dlogits, self.x)
        return narrow(numpy.einsum("btef,efc->btec", dh, self.w[0])).sum(2) + dlogits @ self.router


def loss_and_gradients(rounding, p, tokens, targets, count, scale=1.0):
    """Returns the sum of losses of a micro-batch divided by `count`, and gradients, which are multiples of `scale`."""
    narrow = rounding.narrow
    x = p["embedding.tokens.weight"][tokens] + p["embedding.positions.weight"][numpy.arange(CONTEXT)]
    parts = []
    for layer in range(LAYERS):
        sparse = f"blocks.{layer}.moe.router.weight" in p
        second = (Mixture, "moe") if sparse else (Mlp, "mlp")
        for norm_name, branch, name in (("attention_norm", Attention, "attention"), ("mlp_norm", *second)):
            at = f"blocks.{layer}.{norm_name}"
            y, normal, rstd = norm(x, p[f"{at}.weight"], p[f"{at}.bias"])
            module = branch(rounding, p, f"blocks.{layer}.{name}", narrow(y))
            x = x + module.y
            parts.append((at, module, normal, rstd))
    y, normal, rstd = norm(x, p["final_norm.weight"], p["final_norm.bias"])
    n, table = narrow(y), narrow(p["head.weight"])
    logits = n @ table.T
    e = numpy.exp(logits - logits.max(-1, keepdims=True))
    probability = e / e.sum(-1, keepdims=True)
    learned = targets >= 0
    one_hot = numpy.eye(VOCAB)[numpy.where(learned, targets, 0)]
    loss = -numpy.log((probability * one_hot).sum(-1))[learned].sum() / count
    dlogits = narrow((probability - one_hot) * learned[..., None] * single(1 / count) * scale)
    grads = {"head.weight": numpy.einsum("bti,btj->ij", dlogits, n)}
    dx, grads["final_norm.weight"], grads["final_norm.bias"] = norm_backward(
        narrow(dlogits @ table), normal, rstd, p["final_norm.weight"])  # fmt: skip
    for at, module, normal, rstd in reversed(parts):
        d, grads[f"{at}.weight"], grads[f"{at}.bias"] = norm_backward(
            module.backward(narrow(dx), grads), normal, rstd, p[f"{at}.weight"])  # fmt: skip
        dx = dx + d
    words, positions = numpy.zeros((VOCAB, WIDTH)), numpy.zeros((CONTEXT, WIDTH))
    numpy.add.at(words, tokens, dx)
    grads["embedding.tokens.weight"] = words
    positions[:] = dx.sum(0)
    grads["embedding.positions.weight"] = positions
    return loss, grads
