// 3 x 3 convolutions with stride 1 of whole images of 32, 16 and 8 pixels a side, with 16, 32 and 64 channels.
//
// A block of threads holds an image, or two, with a border of zeros in shared memory, so that each activation is read
// from device memory once and serves all nine taps. Activations are (lanes, images, SIDE, SIDE, C) in bfloat16; sums
// are float32, and each block adds up the same images in the same order, whatever lanes train beside it.
//
// In shared memory a cell is eight channels of a pixel, 16 bytes, and a plane holds the cells of the same channels: the
// eight rows of a matrix that `ldmatrix` reads then lie side by side in any shift, without bank conflicts.
//
// tests/training/kernels/emulated.h replaces the instructions below on a CPU. whole_images.py adds the kernels
// themselves: `convolve` and `gradients` for each number of channels, with the sizes of its tiling.

typedef unsigned int u32;
typedef unsigned short bf16;

#ifndef EMULATED
#define KERNEL extern "C" __global__
#define SHARED extern __shared__ uint4 shared[]

__device__ __forceinline__ u32 address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

// Four matrices of 8 x 8, 16 x 16 together: each thread names a row, and gets two neighbours of a row in each
__device__ __forceinline__ void load_matrices(u32 (&r)[4], const uint4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address(row)));
}

// the same, two neighbours of a column in each
__device__ __forceinline__ void load_transposed(u32 (&r)[4], const uint4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address(row)));
}

// c (16 x 8) += a (16 x 16) b (16 x 8)
__device__ __forceinline__ void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 16 bytes into shared memory without a detour through registers; zeros where not `there`
__device__ __forceinline__ void copy_cell(uint4* target, const uint4* source, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(address(target)), "l"(source), "r"(there ? 16 : 0) : "memory");
}

__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// threads wait for each other, from different places of the program
template <int BARRIER, int THREADS>
__device__ __forceinline__ void meet() { asm volatile("bar.sync %0, %1;" :: "n"(BARRIER), "n"(THREADS) : "memory"); }

__device__ __forceinline__ float shuffle(float value, int distance) { return __shfl_xor_sync(~0u, value, distance); }

// two numbers as bfloat16, rounded to nearest; the first in the lower half
__device__ __forceinline__ u32 packed(float low, float high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// 8 or 16 bytes into device memory: the compiler would take some of them apart. No kernel reads what it has stored, so
// that loads may pass them.
__device__ __forceinline__ void put(void* target, u32 x, u32 y) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" :: "l"(target), "r"(x), "r"(y));
}

__device__ __forceinline__ void put(void* target, u32 x, u32 y, u32 z, u32 w) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" :: "l"(target), "r"(x), "r"(y), "r"(z), "r"(w));
}

__device__ __forceinline__ u32 as_bits(float value) { return __float_as_uint(value); }
__device__ __forceinline__ float as_float(u32 bits) { return __uint_as_float(bits); }
#endif

__device__ __forceinline__ float low(u32 pair) { return as_float(pair << 16); }
__device__ __forceinline__ float high(u32 pair) { return as_float(pair & 0xffff0000u); }

// the bits of those of two numbers that are above 0
__device__ __forceinline__ u32 above_zero(u32 pair) {
    return (low(pair) > 0 ? 0x0000ffffu : 0) | (high(pair) > 0 ? 0xffff0000u : 0);
}

template <int C, int SIDE, int IMAGES, int CELLS>
struct Tile {  // of IMAGES images with their borders, in shared memory
    static constexpr int PLANES = C / 8, PLANE = CELLS, SIZE = PLANES * PLANE, SIDES = SIDE;
    static constexpr int PIXELS = SIDE * SIDE, ALL = IMAGES * PIXELS, ROW = SIDE + 2, IMAGE = ROW * ROW;

    // whether a pixel of the tile is one of those that are left: the first image always is
    static __device__ __forceinline__ bool there(int pixel, int left) { return IMAGES == 1 || pixel < left; }

    // where the window of a pixel of the tile begins: the cell above and to the left of it
    static __device__ __forceinline__ int window(int pixel) {
        return pixel / PIXELS * IMAGE + pixel % PIXELS / SIDE * ROW + pixel % SIDE;
    }
    static __device__ __forceinline__ int cell(int pixel) { return window(pixel) + ROW + 1; }
    static constexpr __device__ int tap(int number) { return number / 3 * ROW + number % 3; }

    static __device__ void clear(uint4* tiles, int count, int thread, int threads) {
        for (int i = thread; i < count * SIZE; i += threads) tiles[i] = make_uint4(0, 0, 0, 0);
    }
    static __device__ void copy(uint4* tile, const bf16* source, int pixels, int thread, int threads) {
        for (int i = thread; i < ALL * PLANES; i += threads) {
            int pixel = i / PLANES;
            bool copied = there(pixel, pixels);
            copy_cell(tile + i % PLANES * PLANE + cell(pixel), (const uint4*)source + (copied ? i : 0), copied);
        }
    }
};

// What a thread has of MT matrices of 16 pixels, one below the other: two pixels of each matrix.
template <class T, int MT>
struct Unit {
    static constexpr int UNITS = T::ALL / (16 * MT), STRIPS = T::SIDES / 16 > 1 ? T::SIDES / 16 : 1;
    static constexpr int ROWS = 16 * STRIPS / T::SIDES, DOWN = ROWS * T::SIDES;  // of a matrix; pixels to the one below
    static_assert(T::SIDES % (MT * ROWS) == 0, "a unit lies in one image");
    int first, pixel, cell;  // of the unit; of the thread

    __device__ __forceinline__ Unit(int number)
        : first(number / STRIPS * MT * DOWN + number % STRIPS * 16), pixel(first + threadIdx.x % 32 / 4),
          cell(T::cell(pixel)) {}
    __device__ __forceinline__ int pixel_of(int k) const { return pixel + k / 2 * DOWN + k % 2 * 8; }
    __device__ __forceinline__ int cell_of(int k) const {
        return cell + k / 2 * ROWS * T::ROW + k % 2 * (T::SIDES < 16 ? T::ROW : 8);
    }
};

// y = x * w for the pixels of a tile and OUT channels, plus what `begin(unit, values)` sets. A warp takes a unit of MT
// matrices, so that a row of x serves three taps. `values` are, for each of the thread's pixels, the OUT / 4
// neighbouring channels from OUT / 4 * (thread % 4) on; `end(unit, values)` gets their sums.
template <bool BACK, int OUT, int MT, int WARPS, class T, class Begin, class End>
__device__ __forceinline__ void convolve_tile(const uint4* tile, const uint4* w, int warp, Begin begin, End end) {
    typedef Unit<T, MT> U;
    constexpr int NT = OUT / 8, STEPS = T::PLANES / 2;
    int thread = threadIdx.x % 32;
    for (int number = warp; number < U::UNITS; number += WARPS) {
        U unit(number);
        float values[2 * MT][OUT / 4] = {}, sums[MT][NT][4];
        begin(unit, values);
#pragma unroll
        for (int i = 0; i < 2 * MT * OUT / 4; i++) {
            int k = i / (OUT / 4), channel = i % (OUT / 4);
            sums[k / 2][channel / 2][k % 2 * 2 + channel % 2] = values[k][channel];
        }
        const uint4* window = tile + thread / 16 * T::PLANE + T::window(unit.first + thread % 16);
#pragma unroll
        for (int step = 0; step < STEPS; step++)
#pragma unroll
            for (int column = 0; column < 3; column++) {
                uint4 b[3][NT / 2];
#pragma unroll
                for (int row = 0; row < 3; row++)
#pragma unroll
                    for (int n = 0; n < NT / 2; n++) {
                        int tap = BACK ? 8 - row * 3 - column : row * 3 + column;
                        b[row][n] = w[((tap * STEPS + step) * NT + 2 * n) * 16 + thread];
                    }
#pragma unroll
                for (int line = 0; line < (MT - 1) * U::ROWS + 3; line++) {
                    u32 a[4];
                    load_matrices(a, window + step * 2 * T::PLANE + line * T::ROW + column);
#pragma unroll
                    for (int m = 0; m < MT; m++) {
                        int row = line - m * U::ROWS;
                        if (row < 0 || row > 2) continue;
#pragma unroll
                        for (int n = 0; n < NT / 2; n++) {
                            multiply(sums[m][2 * n], a, b[row][n].x, b[row][n].y);
                            multiply(sums[m][2 * n + 1], a, b[row][n].z, b[row][n].w);
                        }
                    }
                }
            }
#pragma unroll
        for (int i = 0; i < 2 * MT * OUT / 4; i++) {
            int k = i / (OUT / 4), channel = i % (OUT / 4);
            values[k][channel] = sums[k / 2][channel / 2][k % 2 * 2 + channel % 2];
        }
        end(unit, values);
    }
}

template <int N>
__device__ __forceinline__ void store(bf16* target, const float (&values)[N]) {
#pragma unroll
    for (int i = 0; i < N; i += 8) {
        u32 pairs[4];
#pragma unroll
        for (int k = 0; k < 8 && i + k < N; k += 2) pairs[k / 2] = packed(values[i + k], values[i + k + 1]);
        if (N < 8) put(target, pairs[0], pairs[1]);
        else put(target + i, pairs[0], pairs[1], pairs[2], pairs[3]);
    }
}

template <int N>
__device__ __forceinline__ void load(u32 (&pairs)[N], const bf16* source) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
        uint2 two = *(const uint2*)(source + 2 * i);
        pairs[i] = two.x, pairs[i + 1] = two.y;
    }
}

__device__ __forceinline__ float unpacked(u32 pair, int i) { return i % 2 ? high(pair) : low(pair); }

// Two sums of each thread's PART of 4 PART channels, added up over WARPS warps that meet: target (2, C).
template <int C, int PART, int WARPS>
__device__ __forceinline__ void add_up(float (&first)[PART], float (&second)[PART], float* parts, float* target, int warp) {
    int thread = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < PART; i++) {
#pragma unroll
        for (int distance = 4; distance < 32; distance *= 2) {
            first[i] += shuffle(first[i], distance);
            second[i] += shuffle(second[i], distance);
        }
        int at = warp * 4 * PART + thread % 4 * PART + i;
        if (thread < 4) parts[at] = first[i], parts[WARPS * 4 * PART + at] = second[i];
    }
    meet<1, WARPS * 32>();
    for (int i = warp * 32 + thread; i < 8 * PART; i += WARPS * 32) {
        int which = i / (4 * PART), channel = i % (4 * PART);
        float total = 0;
        for (int other = 0; other < WARPS; other++) total += parts[(which * WARPS + other) * 4 * PART + channel];
        target[which * C + channel] = total;
    }
}

// `make(first, turn)` fills a tile from image `first` on, each while the other warps of the block use the one before.
template <int IMAGES, int THREADS, class Make>
__device__ __forceinline__ void make_in_turn(int begin, int end, Make make) {
    make(begin, 0);
    wait_for_copies();
    meet<0, THREADS>();
    for (int first = begin, turn = 0; first < end; first += IMAGES, turn ^= 1) {
        if (first + IMAGES < end) make(first + IMAGES, turn ^ 1);
        wait_for_copies();
        meet<0, THREADS>();
    }
}

// y from x, and sums of y and of its square over the images of a block: partial (lanes, blocks, 2, C). Where NORMED, x is
// made here and kept: ReLU(norm(before) [+ residual]), by the statistics, gamma and beta of the layer before. The first
// warps make or copy the next tile while the others convolve this one.
template <int C, int SIDE, int IMAGES, int PLANE, int PER_BLOCK, int MT, int MAKERS, int CONVOLVERS, bool NORMED,
          bool RESIDUAL>
__device__ __forceinline__ void convolve(
    const bf16* before, const float* statistics, const float* gamma, const float* beta, const bf16* residual, bf16* x,
    const uint4* w, bf16* y, float* partial, int images) {
    typedef Tile<C, SIDE, IMAGES, PLANE> T;
    typedef Unit<T, MT> U;
    constexpr int PART = C / 4, THREADS = 32 * (MAKERS + CONVOLVERS), WEIGHTS = 9 * C * C / 8;
    static_assert(MAKERS * 32 % T::PLANES == 0, "a maker keeps to the same channels");
    SHARED;
    uint4* weights = shared + 2 * T::SIZE;
    float* constants = (float*)(weights + WEIGHTS);  // (2, C)
    int lane = blockIdx.z, thread = threadIdx.x, warp = thread / 32;
    int begin = blockIdx.y * PER_BLOCK, end = min(images, begin + PER_BLOCK);
    long long start = (long long)lane * images * T::PIXELS * C;
    T::clear(shared, 2, thread, THREADS);
    for (int i = thread; i < WEIGHTS; i += THREADS) copy_cell(weights + i, w + lane * WEIGHTS + i, true);
    if (NORMED && thread < C) {
        float scale = gamma[lane * C + thread] * statistics[lane * 2 * C + C + thread];
        constants[thread] = scale;
        constants[C + thread] = beta[lane * C + thread] - statistics[lane * 2 * C + thread] * scale;
    }
    auto make = [&](int first, int turn) {
        constexpr int BATCH = RESIDUAL ? 2 : 4, CELLS = T::ALL * T::PLANES;  // a batch is read at once
        static_assert(CELLS % (BATCH * MAKERS * 32) == 0, "batches are full");
        long long here = start + (long long)first * T::PIXELS * C;
        int pixels = (images - first) * T::PIXELS, plane = thread % T::PLANES;
        if (!NORMED) return T::copy(shared + turn * T::SIZE, x + here, pixels, thread, MAKERS * 32);
        const uint4 *inputs = (const uint4*)(before + here), *others = (const uint4*)(residual + here);
        float scale[8], shift[8];
#pragma unroll
        for (int k = 0; k < 8; k++) scale[k] = constants[plane * 8 + k], shift[k] = constants[C + plane * 8 + k];
#pragma unroll 1
        for (int batch = thread; batch < CELLS; batch += BATCH * MAKERS * 32) {
            uint4 input[BATCH], other[BATCH];
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                int i = batch + b * MAKERS * 32, from = T::there(i / T::PLANES, pixels) ? i : plane;
                input[b] = inputs[from];
                if (RESIDUAL) other[b] = others[from];
            }
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                int i = batch + b * MAKERS * 32;
                if (!T::there(i / T::PLANES, pixels)) continue;  // nothing is stored of it
                u32 values[4] = {input[b].x, input[b].y, input[b].z, input[b].w}, result[4];
                u32 added[4] = {other[b].x, other[b].y, other[b].z, other[b].w};
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    float v0 = low(values[k]) * scale[2 * k] + shift[2 * k];
                    float v1 = high(values[k]) * scale[2 * k + 1] + shift[2 * k + 1];
                    if (RESIDUAL) v0 += low(added[k]), v1 += high(added[k]);
                    result[k] = packed(v0 < 0 ? 0 : v0, v1 < 0 ? 0 : v1);  // what is no number stays so: it must show
                }
                uint4* cell = shared + turn * T::SIZE + plane * PLANE + T::cell(i / T::PLANES);
                *cell = make_uint4(result[0], result[1], result[2], result[3]);
                put((uint4*)(x + here) + i, result[0], result[1], result[2], result[3]);
            }
        }
    };
    __syncthreads();
    if (warp < MAKERS) return make_in_turn<IMAGES, THREADS>(begin, end, make);
    float sums[PART] = {}, squares[PART] = {};
    wait_for_copies();
    meet<0, THREADS>();
    for (int first = begin, turn = 0; first < end; first += IMAGES, turn ^= 1) {
        long long here = start + (long long)first * T::PIXELS * C + thread % 4 * PART;
        int pixels = (images - first) * T::PIXELS;
        convolve_tile<false, C, MT, CONVOLVERS, T>(
            shared + turn * T::SIZE, weights, warp - MAKERS, [](const U&, float (&)[2 * MT][PART]) {},
            [&](const U& unit, float (&values)[2 * MT][PART]) {
#pragma unroll
                for (int k = 0; k < 2 * MT; k++) {
                    if (!T::there(unit.pixel_of(k), pixels)) continue;
                    store(y + here + unit.pixel_of(k) * C, values[k]);
#pragma unroll
                    for (int i = 0; i < PART; i++)
                        sums[i] += values[k][i], squares[i] += values[k][i] * values[k][i];
                }
            });
        meet<0, THREADS>();
    }
    float* target = partial + ((long long)lane * gridDim.y + blockIdx.y) * 2 * C;
    add_up<C, PART, CONVOLVERS>(sums, squares, (float*)shared, target, warp - MAKERS);
}

// The gradient of w over the pixels of a tile, added to `sums`, for one tap and CO outputs of each warp, all inputs.
// `gradients` is that of y, from the first of CO on.
template <int CO, class T>
__device__ __forceinline__ void weigh_tile(
    float (&sums)[1][CO / 16][T::PLANES][4], const uint4* tile, const uint4* gradients, int tap) {
    int thread = threadIdx.x % 32;
    for (int k = 0; k < T::ALL; k += 16) {
        u32 a[CO / 16][4];
        const uint4* gradient = gradients + thread / 8 % 2 * T::PLANE + T::cell(k + thread % 8 + thread / 16 * 8);
#pragma unroll
        for (int m = 0; m < CO / 16; m++) load_transposed(a[m], gradient + m * 2 * T::PLANE);
        const uint4* window = tile + thread / 16 * T::PLANE + T::window(k + thread % 16) + T::tap(tap);
#pragma unroll
        for (int n = 0; n < T::PLANES; n += 2) {
            u32 b[4];
            load_transposed(b, window + n * T::PLANE);
#pragma unroll
            for (int m = 0; m < CO / 16; m++) {
                multiply(sums[0][m][n], a[m], b[0], b[1]);
                multiply(sums[0][m][n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

// The same for a column of three taps of each warp, strip after strip of 16 pixels: a row of x serves three rows of the
// gradient.
template <int CO, class T>
__device__ __forceinline__ void weigh_tile(
    float (&sums)[3][CO / 16][T::PLANES][4], const uint4* tile, const uint4* gradients, int column) {
    static_assert(T::SIDES % 16 == 0 && T::ALL == T::PIXELS, "a strip lies in the image");
    constexpr int LINES = T::SIDES;
    int thread = threadIdx.x % 32;
#pragma unroll 1
    for (int first = 0; first < T::SIDES; first += 16) {
        const uint4* gradient = gradients + thread / 8 % 2 * T::PLANE + T::cell(first + thread % 8 + thread / 16 * 8);
        const uint4* window = tile + thread / 16 * T::PLANE + T::window(first + thread % 16) + column;
        u32 a[3][CO / 16][4];  // line % 3
#pragma unroll
        for (int line = 0; line < LINES + 2; line++) {
            u32 b[T::PLANES / 2][4];
#pragma unroll
            for (int n = 0; n < T::PLANES / 2; n++) load_transposed(b[n], window + line * T::ROW + 2 * n * T::PLANE);
            if (line < LINES)
#pragma unroll
                for (int m = 0; m < CO / 16; m++)
                    load_transposed(a[line % 3][m], gradient + line * T::ROW + m * 2 * T::PLANE);
#pragma unroll
            for (int row = 0; row < 3; row++) {
                if (line < row || line - row >= LINES) continue;
#pragma unroll
                for (int m = 0; m < CO / 16; m++)
#pragma unroll
                    for (int n = 0; n < T::PLANES / 2; n++) {
                        multiply(sums[row][m][2 * n], a[(line - row) % 3][m], b[n][0], b[n][1]);
                        multiply(sums[row][m][2 * n + 1], a[(line - row) % 3][m], b[n][2], b[n][3]);
                    }
            }
        }
    }
}

// The gradients of x and of w from dz, that of z = ReLU(norm(y) [+ residual]). `g` is the gradient behind the ReLU: dz
// where MASKED, else it is made here by z, and kept. `sums` (lanes, 2, C) are those of g and of g times y standardised; w
// has inputs for outputs; partial is (lanes, blocks, 9, C, C). x is the z of the layer before, so that its own g can be
// made at once: `dx`, the gradient of x plus an addend, behind the ReLU of that layer, whose sums go to `gathered`
// (lanes, blocks, 2, C), with its y and statistics. Three groups of warps work side by side: the first make dy, the
// gradient of y, of the next tile and copy its x; the second convolve dy of this tile; the third weigh it.
template <int C, int SIDE, int IMAGES, int PLANE, int PER_BLOCK, int MT, int MAKERS, int CONVOLVERS, int WEIGHERS,
          int TAPS, int SPLITS, int PARTS, bool MASKED>
__device__ __forceinline__ void gradients(
    const bf16* dz, const bf16* z, const bf16* y, const bf16* x, const float* statistics, const float* gamma,
    const float* sums, const uint4* w, const bf16* addend, const bf16* y_before, const float* statistics_before, bf16* g,
    bf16* dx, float* gathered, float* partial, int images) {
    typedef Tile<C, SIDE, IMAGES, PLANE> T;
    typedef Unit<T, MT> U;
    constexpr int OUT = C / PARTS, PART = OUT / 4, WEIGHTS = 9 * C * OUT / 8;
    constexpr int THREADS = 32 * (MAKERS + CONVOLVERS + WEIGHERS);
    constexpr int GROUPS = 9 / TAPS, CO = OUT / SPLITS;  // of warps that weigh, and the outputs of each
    static_assert(MAKERS * 32 % T::PLANES == 0, "a maker keeps to the same channels");
    static_assert(WEIGHERS == GROUPS * SPLITS && CO % 16 == 0, "each weighs some taps and whole matrices of outputs");
    SHARED;
    uint4 *made = shared, *copied = shared + 2 * T::SIZE, *weights = shared + 4 * T::SIZE;
    float* constants = (float*)(weights + WEIGHTS);  // (3, C)
    int part = blockIdx.x, lane = blockIdx.z, thread = threadIdx.x, warp = thread / 32;
    int begin = blockIdx.y * PER_BLOCK, end = min(images, begin + PER_BLOCK);
    long long start = (long long)lane * images * T::PIXELS * C, block = (long long)lane * gridDim.y + blockIdx.y;
    T::clear(shared, 4, thread, THREADS);
    if (dx)
        for (int i = thread; i < WEIGHTS; i += THREADS)
            copy_cell(weights + i, w + (lane * PARTS + part) * WEIGHTS + i, true);
    if (thread < C) {  // dy = scale (g - mean g - v mean(g v)), v being y standardised, is scale g - level - slope y
        const float* statistic = statistics + lane * 2 * C + thread;
        const float* sum = sums + lane * 2 * C + thread;
        float count = (float)images * T::PIXELS, scale = gamma[lane * C + thread] * statistic[C];
        float slope = scale * statistic[C] * sum[C] / count;
        constants[thread] = scale;
        constants[C + thread] = scale * sum[0] / count - slope * statistic[0];
        constants[2 * C + thread] = slope;
    }
    auto make = [&](int first, int turn) {
        constexpr int BATCH = MASKED ? 4 : 2, CELLS = T::ALL * T::PLANES;  // a batch is read at once
        static_assert(CELLS % (BATCH * MAKERS * 32) == 0, "batches are full");
        long long here = start + (long long)first * T::PIXELS * C;
        int pixels = (images - first) * T::PIXELS, plane = thread % T::PLANES;
        const uint4 *gradients = (const uint4*)(dz + here), *inputs = (const uint4*)(y + here);
        const uint4* outputs = (const uint4*)(z + here);
        T::copy(copied + turn * T::SIZE, x + here, pixels, thread, MAKERS * 32);
        float scale[8], level[8], slope[8];
#pragma unroll
        for (int k = 0; k < 8; k++) {
            const float* constant = constants + plane * 8 + k;
            scale[k] = constant[0], level[k] = constant[C], slope[k] = constant[2 * C];
        }
#pragma unroll 1
        for (int batch = thread; batch < CELLS; batch += BATCH * MAKERS * 32) {
            uint4 gradient[BATCH], input[BATCH], output[BATCH];
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                int i = batch + b * MAKERS * 32, from = T::there(i / T::PLANES, pixels) ? i : plane;
                gradient[b] = gradients[from], input[b] = inputs[from];
                if (!MASKED) output[b] = outputs[from];
            }
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                int i = batch + b * MAKERS * 32;
                bool there = T::there(i / T::PLANES, pixels);
                u32 masked[4] = {gradient[b].x, gradient[b].y, gradient[b].z, gradient[b].w}, result[4];
                u32 before[4] = {input[b].x, input[b].y, input[b].z, input[b].w};
                u32 after[4] = {output[b].x, output[b].y, output[b].z, output[b].w};
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    if (!MASKED) masked[k] &= above_zero(after[k]);
                    u32 pair = packed(
                        scale[2 * k] * low(masked[k]) - level[2 * k] - slope[2 * k] * low(before[k]),
                        scale[2 * k + 1] * high(masked[k]) - level[2 * k + 1] - slope[2 * k + 1] * high(before[k]));
                    result[k] = there ? pair : 0;
                }
                uint4* cell = made + turn * T::SIZE + plane * PLANE + T::cell(i / T::PLANES);
                *cell = make_uint4(result[0], result[1], result[2], result[3]);
                if (!MASKED && there && part == 0)
                    put((uint4*)(g + here) + i, masked[0], masked[1], masked[2], masked[3]);
            }
        }
    };
    __syncthreads();
    if (warp < MAKERS) {
        make_in_turn<IMAGES, THREADS>(begin, end, make);
    } else if (warp < MAKERS + CONVOLVERS) {
        int channel = part * OUT + thread % 4 * PART;
        float total[PART] = {}, products[PART] = {};
        wait_for_copies();
        meet<0, THREADS>();
        for (int first = begin, turn = 0; first < end; first += IMAGES, turn ^= 1) {
            long long here = start + (long long)first * T::PIXELS * C + channel;
            int pixels = (images - first) * T::PIXELS;
            const uint4* outputs = copied + turn * T::SIZE + channel / 8 * PLANE;
            if (dx)
                convolve_tile<true, OUT, MT, CONVOLVERS, T>(
                    made + turn * T::SIZE, weights, warp - MAKERS,
                    [&](const U& unit, float (&values)[2 * MT][PART]) {
                        if (!addend) return;
#pragma unroll
                        for (int k = 0; k < 2 * MT; k++) {
                            if (!T::there(unit.pixel_of(k), pixels)) continue;
                            u32 pairs[PART / 2];
                            load(pairs, addend + here + unit.pixel_of(k) * C);
#pragma unroll
                            for (int i = 0; i < PART; i++) values[k][i] = unpacked(pairs[i / 2], i);
                        }
                    },
                    [&](const U& unit, float (&values)[2 * MT][PART]) {
                        u32 inputs[2 * MT][PART / 2];
#pragma unroll
                        for (int k = 0; k < 2 * MT; k++) {
                            int pixel = unit.pixel_of(k);
                            load(inputs[k], y_before + here + (T::there(pixel, pixels) ? pixel * C : 0));
                        }
#pragma unroll
                        for (int k = 0; k < 2 * MT; k++) {  // of an image that is not there all values are 0
                            u32 output[PART / 2];
                            load(output, (const bf16*)(outputs + unit.cell_of(k)) + channel % 8);
#pragma unroll
                            for (int i = 0; i < PART; i++) {
                                if (!(unpacked(output[i / 2], i) > 0)) values[k][i] = 0;
                                total[i] += values[k][i];
                                products[i] += values[k][i] * unpacked(inputs[k][i / 2], i);
                            }
                            if (T::there(unit.pixel_of(k), pixels)) store(dx + here + unit.pixel_of(k) * C, values[k]);
                        }
                    });
            meet<0, THREADS>();
        }
        if (dx) {
            const float* before = statistics_before + lane * 2 * C + channel;
#pragma unroll
            for (int i = 0; i < PART; i++) products[i] = (products[i] - before[i] * total[i]) * before[C + i];
            float* target = gathered + block * 2 * C + part * OUT;
            add_up<C, PART, CONVOLVERS>(total, products, (float*)weights, target, warp - MAKERS);
        }
    } else {
        int weigher = warp - MAKERS - CONVOLVERS, group = weigher % GROUPS, split = weigher / GROUPS;
        float products[TAPS][CO / 16][T::PLANES][4] = {};
        wait_for_copies();
        meet<0, THREADS>();
        for (int first = begin, turn = 0; first < end; first += IMAGES, turn ^= 1) {
            const uint4* gradient = made + turn * T::SIZE + (part * OUT + split * CO) / 8 * PLANE;
            weigh_tile<CO, T>(products, copied + turn * T::SIZE, gradient, group);
            meet<0, THREADS>();
        }
        float* target = partial + (block * 9 * C + part * OUT) * C;
#pragma unroll
        for (int i = 0; i < TAPS * CO / 16 * T::PLANES * 2; i++) {  // pairs of neighbouring inputs
            int half = i % 2, n = i / 2 % T::PLANES, m = i / 2 / T::PLANES % (CO / 16);
            int t = i / 2 / T::PLANES / (CO / 16), tap = group + 3 * t;
            int row = split * CO + m * 16 + thread % 32 / 4 + half * 8, column = n * 8 + thread % 4 * 2;
            const float* pair = products[t][m][n] + half * 2;
            put(target + (tap * C + row) * C + column, as_bits(pair[0]), as_bits(pair[1]));
        }
    }
}
