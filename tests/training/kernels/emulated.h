// A block of CUDA threads on one thread of a CPU: every thread is a fiber, and waits where the warp or the block meets.
// Replaces the instructions at the top of whole_images.cu; compiled by g++ in test_whole_images.py.
// A fiber begins by setcontext and goes on by longjmp, which asks nothing of the kernel, as swapcontext does at every switch.
#undef _FORTIFY_SOURCE  // it takes a jump to another stack for an error
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#define EMULATED
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define KERNEL static
#define SHARED uint4* shared = emulator.shared.data()
using std::min;

struct uint2 { uint32_t x, y; };
struct float2 { float x, y; };
struct alignas(16) uint4 { uint32_t x, y, z, w; };
struct Index { int x, y, z; };
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }

static Index threadIdx, blockIdx, gridDim;

struct Meeting {  // of threads: the last to arrive does the work of all
    int arrived = 0, turn = 0;
    void* given[32] = {};
};

struct Fiber {
    ucontext_t start;
    jmp_buf place;  // where it goes on
    bool begun = false, ended = false;
    const Meeting* meeting = nullptr;  // that it waits for, until its turn is another
    int turn = 0;
    bool waits() const { return meeting && meeting->turn == turn; }
};

struct Copy { uint4 *target, value; };

struct Emulator {
    static constexpr int GUARD = 64;  // cells behind the shared memory of a block, which nothing may write
    std::vector<uint4> shared;
    size_t size = 0;  // of shared memory, in cells
    std::vector<std::vector<Copy>> copies;  // of each thread, until it waits for them
    std::vector<Fiber> fibers;
    std::vector<std::vector<char>> stacks;
    std::vector<Meeting> warps;
    Meeting barriers[3];
    jmp_buf main;
    int current = 0;
    bool moved = false, stuck = false;  // whether a thread has gone on; whether none ever will
    std::function<void()> kernel;

    void yield() { if (!_setjmp(fibers[current].place)) _longjmp(main, 1); }
    void go_on(Fiber& fiber) {
        if (_setjmp(main)) return;
        if (fiber.begun) _longjmp(fiber.place, 1);
        fiber.begun = true;
        setcontext(&fiber.start);
    }
    void meet(Meeting& meeting, int members, const std::function<void(Meeting&)>& work) {
        Fiber& fiber = fibers[current];
        fiber.meeting = &meeting, fiber.turn = meeting.turn;
        moved = true;
        if (++meeting.arrived == members) {
            work(meeting);
            meeting.arrived = 0, meeting.turn++;
        }
        if (fiber.waits()) yield();
    }
    static void begin();
    void run_block(int threads) {
        shared.assign(shared.size(), uint4{0x7fc07fc0, 0x7fc07fc0, 0x7fc07fc0, 0x7fc07fc0});  // NaNs
        fibers.assign(threads, {}), stacks.assign(threads, std::vector<char>(1 << 16));
        copies.assign(threads, {}), warps.assign(threads / 32, {});
        barriers[0] = barriers[1] = barriers[2] = {};
        for (int i = 0; i < threads; i++) {
            ucontext_t& start = fibers[i].start;
            getcontext(&start);
            start.uc_stack.ss_sp = stacks[i].data(), start.uc_stack.ss_size = stacks[i].size();
            makecontext(&start, begin, 0);
        }
        for (int left = threads; left > 0 && !stuck;) {
            left = 0, moved = false;
            for (current = 0; current < threads; current++) {
                Fiber& fiber = fibers[current];
                if (fiber.ended) continue;
                threadIdx = {current, 0, 0};
                if (!fiber.waits()) go_on(fiber), moved |= fiber.ended;
                left += !fiber.ended;
            }
            stuck = left > 0 && !moved;
        }
        for (size_t i = size; i < shared.size(); i++)
            if (shared[i].x != 0x7fc07fc0 || shared[i].w != 0x7fc07fc0) abort();
    }
};
static Emulator emulator;
inline void Emulator::begin() { emulator.kernel(), emulator.fibers[emulator.current].ended = true, _longjmp(emulator.main, 1); }

// -> whether all threads have ended
static bool emulate(int parts, int blocks, int lanes, int threads, int bytes, std::function<void()> kernel) {
    emulator.kernel = kernel, emulator.size = bytes / 16, gridDim = {parts, blocks, lanes};
    emulator.shared.resize(emulator.size + Emulator::GUARD), emulator.stuck = false;
    for (int x = 0; x < parts; x++)
        for (int y = 0; y < blocks; y++)
            for (int z = 0; z < lanes; z++) blockIdx = {x, y, z}, emulator.run_block(threads);
    return !emulator.stuck;
}

static void in_warp(void* given, const std::function<void(Meeting&)>& work) {
    Meeting& warp = emulator.warps[emulator.current / 32];
    warp.given[emulator.current % 32] = given;
    emulator.meet(warp, 32, work);
}

static void meet_at(int barrier, int threads) { emulator.meet(emulator.barriers[barrier], threads, [](Meeting&) {}); }
inline void __syncthreads() { meet_at(0, emulator.fibers.size()); }
template <int BARRIER, int THREADS> void meet() { meet_at(BARRIER, THREADS); }

inline void put(void* target, uint32_t x, uint32_t y) { *(uint2*)target = {x, y}; }
inline void put(void* target, uint32_t x, uint32_t y, uint32_t z, uint32_t w) { *(uint4*)target = {x, y, z, w}; }
inline uint32_t as_bits(float value) { uint32_t bits; memcpy(&bits, &value, 4); return bits; }
inline float as_float(uint32_t bits) { float value; memcpy(&value, &bits, 4); return value; }
inline uint32_t rounded(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return std::isnan(value) ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
inline uint32_t packed(float low, float high) { return rounded(low) | rounded(high) << 16; }

inline void check(const uint4* row) {  // within shared memory
    const uint4* shared = emulator.shared.data();
    if (row < shared || row >= shared + emulator.size) abort();
}

struct Rows { uint32_t* r; const uint4* row; };

template <bool TRANSPOSED>
void matrices(uint32_t (&r)[4], const uint4* row) {
    check(row);
    Rows rows{r, row};
    in_warp(&rows, [](Meeting& warp) {
        for (int matrix = 0; matrix < 4; matrix++)
            for (int thread = 0; thread < 32; thread++) {
                uint16_t pair[2];
                for (int i = 0; i < 2; i++) {
                    int line = TRANSPOSED ? thread % 4 * 2 + i : thread / 4;
                    int column = TRANSPOSED ? thread / 4 : thread % 4 * 2 + i;
                    pair[i] = ((const uint16_t*)((Rows*)warp.given[matrix * 8 + line])->row)[column];
                }
                ((Rows*)warp.given[thread])->r[matrix] = pair[0] | (uint32_t)pair[1] << 16;
            }
    });
}
inline void load_matrices(uint32_t (&r)[4], const uint4* row) { matrices<false>(r, row); }
inline void load_transposed(uint32_t (&r)[4], const uint4* row) { matrices<true>(r, row); }

struct Product { float* c; const uint32_t* a; uint32_t b[2]; };

inline void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    Product product{c, a, {b0, b1}};
    in_warp(&product, [](Meeting& warp) {
        float a[16][16], b[16][8];
        for (int thread = 0; thread < 32; thread++) {
            const Product& given = *(Product*)warp.given[thread];
            for (int i = 0; i < 8; i++) {  // register i / 2, half i % 2
                int row = thread / 4 + i / 2 % 2 * 8, column = thread % 4 * 2 + i % 2 + i / 4 * 8;
                a[row][column] = as_float(given.a[i / 2] >> 16 * (i % 2) << 16);
                if (i >= 4) continue;
                b[thread % 4 * 2 + i % 2 + i / 2 * 8][thread / 4] = as_float(given.b[i / 2] >> 16 * (i % 2) << 16);
            }
        }
        for (int thread = 0; thread < 32; thread++)
            for (int i = 0; i < 4; i++) {
                int row = thread / 4 + i / 2 * 8, column = thread % 4 * 2 + i % 2;
                float sum = 0;
                for (int k = 0; k < 16; k++) sum += a[row][k] * b[k][column];
                ((Product*)warp.given[thread])->c[i] += sum;
            }
    });
}

inline void copy_cell(uint4* target, const uint4* source, bool there) {
    check(target);
    emulator.copies[emulator.current].push_back({target, there ? *source : uint4{}});
}
inline void wait_for_copies() {
    for (const Copy& copy : emulator.copies[emulator.current]) *copy.target = copy.value;
    emulator.copies[emulator.current].clear();
}

struct Shuffled { float value, result; };
inline float shuffle(float value, int distance) {
    Shuffled shuffled{value, 0};
    static int across;
    across = distance;
    in_warp(&shuffled, [](Meeting& warp) {
        for (int thread = 0; thread < 32; thread++)
            ((Shuffled*)warp.given[thread])->result = ((Shuffled*)warp.given[thread ^ across])->value;
    });
    return shuffled.result;
}
