"""Twenty steps under precision fp8 against an emulation of the model and of the scales in NumPy.

The emulation rounds to bf16 and to fp8 where engine/numbers.md says that the engine stores or multiplies such
numbers, and sums in float64. The engine sums in float32, so a value next to a midpoint may round to the other
neighbour in some steps, which the largest differences allow for; the medians are far below the effect of a rounding
that is left out or of another scale. Each step begins with the engine's weights, because Adam would make full steps of such differences. In two of the
steps few targets have gradients, which are larger than those before, so that delayed scales saturate. One step is
discarded. With a margin of 11 most numbers are subnormal in their format, so that every scale matters.
"""

import numpy
import pytest

import hawser

VOCAB, CONTEXT, WIDTH, HEADS, HIDDEN, LAYERS, ROWS, MICRO = 41, 10, 24, 3, 56, 2, 4, 2
RATE = 2e-2
STEPS, HISTORY, DISCARDED, FEW_TARGETS = 20, 4, 7, (3, 12)
E4M3, E5M2 = (3, 7, 448.0, -116, 120), (2, 15, 57344.0, -109, 113)  # fraction, bias, largest, least e, largest e


def single(x):
    return numpy.asarray(x).astype(numpy.float32).astype(numpy.float64)


def narrow(x):
    """Rounds to bf16, to nearest even."""
    bits = numpy.ascontiguousarray(numpy.asarray(x), dtype=numpy.float32).view(numpy.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return bits.astype(numpy.uint32).view(numpy.float32).astype(numpy.float64)


def rounded(x, form, maximum, margin):
    """Rounds to the nearest numbers of the format, with the power of two of this maximum."""
    fraction, bias, largest, least, most = form
    e = least
    while maximum > numpy.ldexp(largest, e - margin) and e < most:
        e += 1
    y = numpy.minimum(numpy.abs(numpy.ldexp(x, -e)), largest)
    unit = numpy.ldexp(1.0, numpy.maximum(numpy.frexp(y)[1] - 1, 1 - bias) - fraction)
    return numpy.copysign(numpy.ldexp(numpy.round(y / unit) * unit, e), x)  # NumPy rounds to even


class Scales:
    """The maxima of operands: of this step, and of the committed ones before."""

    def __init__(self, recipe, margin):
        self.recipe, self.margin, self.now, self.past = recipe, margin, {}, []

    def round(self, key, x, form):
        own = numpy.abs(x).max()
        self.now[key] = max(self.now.get(key, 0.0), own)
        past = max((step[key] for step in self.past if key in step), default=0.0)
        return rounded(x, form, past if self.recipe == "delayed" and past > 0 else own, self.margin)

    def end(self, committed):
        if committed:
            self.past = (self.past + [self.now])[-HISTORY:]
        self.now = {}


class Linear:
    """Weights that read the same input."""

    def __init__(self, p, scales, names, x):
        self.p, self.scales, self.names = p, scales, names
        self.x = scales.round((names[0], "x"), x, E4M3)
        self.w = {n: scales.round((n, "w"), narrow(p[f"{n}.weight"]), E4M3) for n in names}
        self.y = [self.x @ self.w[n].T + p[f"{n}.bias"] for n in names]

    def backward(self, dy, grads):
        dx = 0
        for name, d in zip(self.names, dy, strict=True):
            grads[f"{name}.bias"] = d.sum((0, 1))
            d = self.scales.round((name, "dy"), d, E5M2)
            grads[f"{name}.weight"] = numpy.einsum("bti,btj->ij", d, self.x)
            dx = dx + d @ self.w[name]
        return dx


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
    return x.reshape(MICRO, CONTEXT, HEADS, -1).transpose(0, 2, 1, 3)


def flat(x):
    return x.transpose(0, 2, 1, 3).reshape(MICRO, CONTEXT, -1)


class Attention:
    def __init__(self, p, scales, name, x):
        self.qkv = Linear(p, scales, [f"{name}.{c}" for c in "qkv"], x)
        self.q, self.k, self.v = (heads(narrow(y)) for y in self.qkv.y)
        scores = self.q @ self.k.transpose(0, 1, 3, 2) / numpy.sqrt(WIDTH // HEADS)
        scores = numpy.where(numpy.tri(CONTEXT, dtype=bool), scores, -numpy.inf)
        e = numpy.exp(scores - scores.max(-1, keepdims=True))
        self.probability = e / e.sum(-1, keepdims=True)
        self.o = narrow(narrow(e) @ self.v / e.sum(-1, keepdims=True))
        self.out = Linear(p, scales, [f"{name}.o"], flat(self.o))
        self.y = self.out.y[0]

    def backward(self, dy, grads):
        scale = 1 / numpy.sqrt(WIDTH // HEADS)
        d_o = heads(narrow(self.out.backward([dy], grads)))
        ds = self.probability * (d_o @ self.v.transpose(0, 1, 3, 2) - (d_o * self.o).sum(-1, keepdims=True))
        d = [narrow(ds) @ self.k * scale, narrow(ds).transpose(0, 1, 3, 2) @ self.q * scale,
             narrow(self.probability).transpose(0, 1, 3, 2) @ d_o]  # fmt: skip
        return self.qkv.backward([narrow(flat(value)) for value in d], grads)


class Mlp:
    def __init__(self, p, scales, name, x):
        self.up = Linear(p, scales, [f"{name}.up"], x)
        self.h = narrow(self.up.y[0])
        self.down = Linear(p, scales, [f"{name}.down"], narrow(gelu(self.h)[0]))
        self.y = self.down.y[0]

    def backward(self, dy, grads):
        da = narrow(self.down.backward([dy], grads))
        return self.up.backward([narrow(da * gelu(self.h)[1])], grads)


def loss_and_gradients(p, scales, tokens, targets, count):
    """Returns the sum of losses of a micro-batch, divided by `count`, and its gradients."""
    x = p["embedding.tokens.weight"][tokens] + p["embedding.positions.weight"][numpy.arange(CONTEXT)]
    parts = []
    for layer in range(LAYERS):
        for norm_name, branch, name in (("attention_norm", Attention, "attention"), ("mlp_norm", Mlp, "mlp")):
            at = f"blocks.{layer}.{norm_name}"
            y, normal, rstd = norm(x, p[f"{at}.weight"], p[f"{at}.bias"])
            module = branch(p, scales, f"blocks.{layer}.{name}", narrow(y))
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
    dlogits = narrow((probability - one_hot) * learned[..., None] * single(1 / count))
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


def emulate(p, scales, tokens, targets):
    """Returns the loss and the gradients of a step of two micro-batches."""
    count, loss, grads = (targets >= 0).sum(), 0, {}
    for rows in (slice(0, MICRO), slice(MICRO, ROWS)):
        part, more = loss_and_gradients(p, scales, tokens[rows], targets[rows], count)
        loss += part
        grads = {name: grads.get(name, 0) + g for name, g in more.items()}
    return loss, grads


def config(recipe, margin):
    fp8 = {"recipe": recipe, "margin": margin}
    if recipe == "delayed":
        fp8["history"] = HISTORY
    return {
        "precision": "fp8",
        "fp8": fp8,
        "model": {"vocab_size": VOCAB, "context": CONTEXT, "layers": LAYERS, "width": WIDTH, "heads": HEADS,
                  "mlp": "gelu_tanh", "mlp_width": HIDDEN, "tied_head": False,
                  "dropout": {"embedding": 0.0, "attention": 0.0, "residual": 0.0}},
        "batch": {"micro_batch": MICRO, "grad_accum_steps": ROWS // MICRO, "sequence": CONTEXT},
        "optimizer": {"learning_rate": RATE},
        "schedule": {"kind": "constant", "warmup_steps": 0},
        "cpu": {"threads": 1},
    }  # fmt: skip


def distance(a, b):
    return numpy.sqrt(sum(((a[n] - b[n]) ** 2).sum() for n in b) / sum((g**2).sum() for g in b.values()))


@pytest.mark.parametrize(("recipe", "margin"), [("current", 0), ("current", 11), ("delayed", 0), ("delayed", 11)])
def test_twenty_steps_are_those_of_the_emulation(recipe, margin):
    random = numpy.random.default_rng(11)
    engine = hawser.Engine(config(recipe, margin))
    for tensor in engine.tensors():
        matrix = len(tensor["shape"]) > 1
        value = random.normal(0, 0.3 if matrix else 0.1, tensor["shape"])
        if tensor["name"].endswith("norm.weight"):
            value += 1
        engine.set_tensor(tensor["name"], value.astype(numpy.float32))
    scales, differences = Scales(recipe, margin), []
    for step in range(STEPS):
        p = {t["name"]: engine.tensor(t["name"]).astype(numpy.float64) for t in engine.tensors()}
        tokens = random.integers(0, VOCAB, (ROWS, CONTEXT))
        targets = random.integers(0, VOCAB, (ROWS, CONTEXT))
        targets[random.random(targets.shape) < (0.95 if step in FEW_TARGETS else 0.2)] = -100
        targets[0, 0] = 1
        loss, grads = emulate(p, scales, tokens, targets)
        engine.push(tokens.astype(numpy.int32), targets.astype(numpy.int32))
        result = engine.forward_backward()
        size = numpy.sqrt(sum((g * g).sum() for g in grads.values()))
        differences.append((abs(result.loss - loss) / loss, abs(result.grad_norm - size) / size,
                            distance({n: engine.tensor(n, kind="gradient") for n in grads}, grads)))  # fmt: skip
        if step == DISCARDED:
            engine.discard()
        else:
            engine.commit()
        scales.end(step != DISCARDED)
    losses, norms, gradients = numpy.array(differences).T
    assert numpy.median(losses) < 1e-6 and losses.max() < 1e-3, losses
    assert numpy.median(norms) < 5e-4 and norms.max() < 1e-2, norms
    assert numpy.median(gradients) < 3e-3 and gradients.max() < 5e-2, gradients
