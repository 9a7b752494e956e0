"""Triton kernels of a stack's blocks: 3 x 3 convolution, batch norm, residual and ReLU of every lane in few passes.

cuDNN's grouped convolutions with 16 to 64 channels a group reach a quarter of the memory's speed, and arithmetic is not
the limit (docs/performance.md). Here activations are (lanes, B, H, W, C) in bfloat16, so that the pixels of a lane lie
side by side; sums, statistics and the gradients of parameters are float32, added up in a fixed order.
"""

import triton
import triton.language as tl


@triton.jit
def convolve(
    x, w, addend, y, partial, pixels, H, W, HI, WI,
    TILES: tl.constexpr, CI: tl.constexpr, CO: tl.constexpr, STRIDE: tl.constexpr, TRANSPOSED: tl.constexpr,
    ADD: tl.constexpr, SUMS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y (pixels, CO) of a lane from x, by w (9, in, out); transposed, the gradient of x from that of y, plus an addend.

    A transposed one has stride 1. Sums of y and of its square over the tiles of a program go into `partial`.
    """
    block, lane = tl.program_id(0), tl.program_id(1).to(tl.int64)
    x += lane * (pixels // (H * W)) * HI * WI * CI
    y += lane * pixels * CO
    addend += lane * pixels * CO
    w += lane * 9 * CI * CO
    ci, co = tl.arange(0, CI), tl.arange(0, CO)
    total, squares = tl.zeros((CO,), tl.float32), tl.zeros((CO,), tl.float32)
    for tile in range(TILES):
        p = (block * TILES + tile) * BLOCK + tl.arange(0, BLOCK)
        image, row, column = p // (H * W), p % (H * W) // W, p % W
        inside = p < pixels
        z = tl.zeros((BLOCK, CO), tl.float32)
        for tap in tl.static_range(9):
            if TRANSPOSED:
                r, c = row + 1 - tap // 3, column + 1 - tap % 3
            else:
                r, c = row * STRIDE + tap // 3 - 1, column * STRIDE + tap % 3 - 1
            there = inside & (r >= 0) & (c >= 0) & (r < HI) & (c < WI)
            a = tl.load(x + ((image * HI + r) * WI + c)[:, None] * CI + ci[None, :], mask=there[:, None], other=0.0)
            if TRANSPOSED:
                b = tl.trans(tl.load(w + tap * CI * CO + co[:, None] * CI + ci[None, :]))
            else:
                b = tl.load(w + tap * CI * CO + ci[:, None] * CO + co[None, :])
            z = tl.dot(a, b, z)
        at = p[:, None] * CO + co[None, :]
        if ADD:
            z += tl.load(addend + at, mask=inside[:, None], other=0.0).to(tl.float32)
        tl.store(y + at, z.to(y.dtype.element_ty), mask=inside[:, None])
        if SUMS:
            total += tl.sum(z, 0)
            squares += tl.sum(z * z, 0)
    if SUMS:
        partial += (lane * tl.num_programs(0) + block) * 2 * CO
        tl.store(partial + co, total)
        tl.store(partial + CO + co, squares)


@triton.jit
def convolve_back(
    dy, w, g, dx, images, H, W, HO, WO, CI: tl.constexpr, CO: tl.constexpr, ADD: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """dx (images, H, W, CO) of a lane from dy (images, HO, WO, CI), where the stride is 2.

    ADD: plus the gradient of the shortcut, which gave every other pixel zero channels on both sides; g is like dy. A
    pixel in an even row or column has one tap there, in an odd one two. So a program takes pixels of one parity.
    """
    parity, block, lane = tl.program_id(0) % 4, tl.program_id(0) // 4, tl.program_id(1).to(tl.int64)
    odd_row, odd_column = parity // 2, parity % 2
    rows, columns = (H + 1 - odd_row) // 2, (W + 1 - odd_column) // 2
    p = block * BLOCK + tl.arange(0, BLOCK)
    image, row, column = p // (rows * columns), p % (rows * columns) // columns, p % columns
    inside = image < images
    ci, co = tl.arange(0, CI), tl.arange(0, CO)
    dy += lane * images * HO * WO * CI
    g += lane * images * HO * WO * CI + (CI - CO) // 2
    w += lane * 9 * CI * CO
    z = tl.zeros((BLOCK, CO), tl.float32)
    for i in tl.static_range(2):
        for j in tl.static_range(2):
            if (i <= odd_row) & (j <= odd_column):
                tap = 3 + 3 * odd_row * (2 * i - 1) + 1 + odd_column * (2 * j - 1)
                r, c = row + odd_row * (1 - i), column + odd_column * (1 - j)
                there = inside & (r < HO) & (c < WO)
                at = ((image * HO + r) * WO + c)[:, None] * CI + ci[None, :]
                a = tl.load(dy + at, mask=there[:, None], other=0.0)
                b = tl.trans(tl.load(w + tap * CI * CO + co[:, None] * CI + ci[None, :]))
                z = tl.dot(a, b, z)
    if ADD:  # noqa: SIM102 -- known when it is compiled
        if parity == 0:
            at = ((image * HO + row) * WO + column)[:, None] * CI + co[None, :]
            z += tl.load(g + at, mask=inside[:, None], other=0.0).to(tl.float32)
    target = lane * images * H * W + (image * H + 2 * row + odd_row) * W + 2 * column + odd_column
    at = target[:, None] * CO + co[None, :]
    tl.store(dx + at, z.to(dx.dtype.element_ty), mask=inside[:, None])


@triton.jit
def weigh(
    x, dy, partial, pixels, H, W, HI, WI,
    TILES: tl.constexpr, CI: tl.constexpr, CO: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradient of w (CO, CI, 3, 3) over some of a lane's pixels, for one row of its taps."""
    block, tap_row, lane = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    x += lane * (pixels // (H * W)) * HI * WI * CI
    dy += lane * pixels * CO
    ci, co = tl.arange(0, CI), tl.arange(0, CO)
    left, middle, right = tl.zeros((CO, CI), tl.float32), tl.zeros((CO, CI), tl.float32), tl.zeros((CO, CI), tl.float32)
    for tile in range(TILES):
        p = (block * TILES + tile) * BLOCK + tl.arange(0, BLOCK)
        image, row, column = p // (H * W), p % (H * W) // W, p % W
        inside = p < pixels
        g = tl.trans(tl.load(dy + p[:, None] * CO + co[None, :], mask=inside[:, None], other=0.0))
        r, c = row * STRIDE + tap_row - 1, column * STRIDE
        inside = inside & (r >= 0) & (r < HI)
        source = x + ((image * HI + r) * WI + c)[:, None] * CI + ci[None, :]
        left = tl.dot(g, tl.load(source - CI, mask=(inside & (c >= 1))[:, None], other=0.0), left)
        middle = tl.dot(g, tl.load(source, mask=inside[:, None], other=0.0), middle)
        right = tl.dot(g, tl.load(source + CI, mask=(inside & (c + 1 < WI))[:, None], other=0.0), right)
    target = (
        partial + (lane * tl.num_programs(0) + block) * CO * CI * 9 + (co[:, None] * CI + ci[None, :]) * 9 + tap_row * 3
    )
    tl.store(target, left)
    tl.store(target + 1, middle)
    tl.store(target + 2, right)


@triton.jit
def convolve_rows(
    x, w, addend, y, partial, images, H: tl.constexpr, W: tl.constexpr, IMAGES: tl.constexpr,
    CI: tl.constexpr, CO: tl.constexpr, TRANSPOSED: tl.constexpr, ADD: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    """`convolve` with stride 1, row by row: each row is read three times, not nine, and serves three rows of y."""
    block, lane = tl.program_id(0), tl.program_id(1).to(tl.int64)
    m, ci, co = tl.arange(0, IMAGES * W), tl.arange(0, CI), tl.arange(0, CO)
    image, column = block * IMAGES + m // W, m % W
    there = (image < images)[:, None]
    has_left, has_right = there & (column > 0)[:, None], there & (column < W - 1)[:, None]
    start = (lane * images + image) * H * W + column
    source, target = x + start[:, None] * CI + ci[None, :], start[:, None] * CO + co[None, :]
    if TRANSPOSED:
        tap, step = w + (lane * 9 + 8) * CI * CO + ci[:, None] + co[None, :] * CI, -CI * CO
    else:
        tap, step = w + lane * 9 * CI * CO + ci[:, None] * CO + co[None, :], CI * CO
    w0, w1, w2 = tl.load(tap), tl.load(tap + step), tl.load(tap + 2 * step)
    w3, w4, w5 = tl.load(tap + 3 * step), tl.load(tap + 4 * step), tl.load(tap + 5 * step)
    w6, w7, w8 = tl.load(tap + 6 * step), tl.load(tap + 7 * step), tl.load(tap + 8 * step)
    above, here = tl.zeros((IMAGES * W, CO), tl.float32), tl.zeros((IMAGES * W, CO), tl.float32)
    total, squares = tl.zeros((CO,), tl.float32), tl.zeros((CO,), tl.float32)
    for row in range(H + 1):  # row H is none: it only completes the one above
        inside = row < H
        left = tl.load(source + (row * W - 1) * CI, mask=has_left & inside, other=0.0)
        middle = tl.load(source + row * W * CI, mask=there & inside, other=0.0)
        right = tl.load(source + (row * W + 1) * CI, mask=has_right & inside, other=0.0)
        above = tl.dot(right, w8, tl.dot(middle, w7, tl.dot(left, w6, above)))
        here = tl.dot(right, w5, tl.dot(middle, w4, tl.dot(left, w3, here)))
        below = tl.dot(right, w2, tl.dot(middle, w1, tl.dot(left, w0)))
        if row > 0:
            at = target + (row - 1) * W * CO
            if ADD:
                above += tl.load(addend + at, mask=there, other=0.0).to(tl.float32)
            tl.store(y + at, above.to(y.dtype.element_ty), mask=there)
            if SUMS:
                total += tl.sum(above, 0)
                squares += tl.sum(above * above, 0)
        above = here
        here = below
    if SUMS:
        partial += (lane * tl.num_programs(0) + block) * 2 * CO
        tl.store(partial + co, total)
        tl.store(partial + CO + co, squares)


@triton.jit
def total(partial, sums, size, BLOCKS: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """A lane's partial sums (blocks, TAPS, ...) added up in their order, whatever lanes are beside it: (..., TAPS)."""
    lane, i = tl.program_id(1).to(tl.int64), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    added = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, BLOCKS, 8):
        for k in tl.static_range(8):  # eight are read at once
            there = (i < size) & (start + k < BLOCKS)
            added += tl.load(partial + (lane * BLOCKS + start + k) * size + i, mask=there, other=0.0)
    tl.store(sums + lane * size + i % (size // TAPS) * TAPS + i // (size // TAPS), added, mask=i < size)


@triton.jit
def settle(
    partial, statistics, running_mean, running_var, pixels, momentum, eps,
    BLOCKS: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Mean and 1 / deviation of a lane's channels from the sums of its blocks; running statistics move on."""
    lane, c = tl.program_id(0), tl.arange(0, C)
    total, squares = tl.zeros((C,), tl.float32), tl.zeros((C,), tl.float32)
    for start in range(0, BLOCKS, BLOCK):
        n = start + tl.arange(0, BLOCK)
        at = partial + (lane * BLOCKS + n)[:, None] * 2 * C + c[None, :]
        total += tl.sum(tl.load(at, mask=(n < BLOCKS)[:, None], other=0.0), 0)
        squares += tl.sum(tl.load(at + C, mask=(n < BLOCKS)[:, None], other=0.0), 0)
    mean = total / pixels
    var = tl.maximum(squares / pixels - mean * mean, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(statistics + lane * 2 * C + c, mean)
    tl.store(statistics + lane * 2 * C + C + c, 1 / tl.sqrt(var + eps))
    at = lane * C + c
    tl.store(running_mean + at, tl.load(running_mean + at) * (1 - momentum) + mean * momentum)
    tl.store(running_var + at, tl.load(running_var + at) * (1 - momentum) + var * (pixels / (pixels - 1.0)) * momentum)


@triton.jit
def normalise(y, statistics, gamma, beta, residual, z, pixels, C: tl.constexpr, ADD: tl.constexpr, BLOCK: tl.constexpr):
    """z = ReLU(gamma (y - mean) / deviation + beta [+ residual])."""
    lane, c = tl.program_id(1).to(tl.int64), tl.arange(0, C)
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at, inside = lane * pixels * C + p[:, None] * C + c[None, :], (p < pixels)[:, None]
    mean, scale = (
        tl.load(statistics + lane * 2 * C + c),
        tl.load(statistics + lane * 2 * C + C + c) * tl.load(gamma + lane * C + c),
    )
    shift = tl.load(beta + lane * C + c) - mean * scale
    value = tl.load(y + at, mask=inside, other=0.0).to(tl.float32) * scale[None, :] + shift[None, :]
    if ADD:
        value += tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
    value = tl.maximum(value, 0.0, propagate_nan=tl.PropagateNan.ALL)  # a lane that diverges must show
    tl.store(z + at, value.to(z.dtype.element_ty), mask=inside)


@triton.jit
def _behind_relu(dz, z, y, at, inside, statistics, gamma, beta, lane, c, C: tl.constexpr, RESIDUAL: tl.constexpr):
    """(the gradient behind the ReLU, y standardised): without a residual y alone tells where z is above 0."""
    mean, scale = tl.load(statistics + lane * 2 * C + c)[None, :], tl.load(statistics + lane * 2 * C + C + c)[None, :]
    x = (tl.load(y + at, mask=inside, other=0.0).to(tl.float32) - mean) * scale
    g = tl.load(dz + at, mask=inside, other=0.0).to(tl.float32)
    if RESIDUAL:
        above = tl.load(z + at, mask=inside, other=0.0) > 0
    else:
        above = x * tl.load(gamma + lane * C + c)[None, :] + tl.load(beta + lane * C + c)[None, :] > 0
    return tl.where(above & inside, g, 0.0), x


@triton.jit
def gather(
    dz, z, y, statistics, gamma, beta, partial, pixels,
    TILES: tl.constexpr, C: tl.constexpr, RESIDUAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums of g and of g x: x is y standardised, g the gradient behind the ReLU."""
    block, lane, c = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.arange(0, C)
    total, products = tl.zeros((BLOCK, C), tl.float32), tl.zeros((BLOCK, C), tl.float32)
    for tile in range(TILES):
        p = (block * TILES + tile) * BLOCK + tl.arange(0, BLOCK)
        at, inside = lane * pixels * C + p[:, None] * C + c[None, :], (p < pixels)[:, None]
        g, x = _behind_relu(dz, z, y, at, inside, statistics, gamma, beta, lane, c, C, RESIDUAL)
        total += g
        products += g * x
    partial += (lane * tl.num_programs(0) + block) * 2 * C
    tl.store(partial + c, tl.sum(total, 0))
    tl.store(partial + C + c, tl.sum(products, 0))


@triton.jit
def spread(
    dz, z, y, statistics, gamma, beta, sums, dy, g_out, pixels,
    C: tl.constexpr, RESIDUAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dy = gamma / deviation (g - mean g - x mean(g x)); g itself too, where a residual wants it."""
    lane, c = tl.program_id(1).to(tl.int64), tl.arange(0, C)
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at, inside = lane * pixels * C + p[:, None] * C + c[None, :], (p < pixels)[:, None]
    g, x = _behind_relu(dz, z, y, at, inside, statistics, gamma, beta, lane, c, C, RESIDUAL)
    if RESIDUAL:
        tl.store(g_out + at, g.to(g_out.dtype.element_ty), mask=inside)
    mean_g = (tl.load(sums + lane * 2 * C + c) / pixels)[None, :]
    mean_gx = (tl.load(sums + lane * 2 * C + C + c) / pixels)[None, :]
    scale = (tl.load(gamma + lane * C + c) * tl.load(statistics + lane * 2 * C + C + c))[None, :]
    tl.store(dy + at, (scale * (g - mean_g - x * mean_gx)).to(dy.dtype.element_ty), mask=inside)
