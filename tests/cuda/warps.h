/*
 * What the lanes of a warp do together, for the emulation of CUDA. All lanes that a mask names meet: they come to the
 * same place of the kernel with the same mask. Where one of them has ended or waits elsewhere when no thread of the
 * warp can go on, the process ends with a message that names the kernel, the place and the lanes.
 */
#ifndef LS_TESTS_CUDA_WARPS_H
#define LS_TESTS_CUDA_WARPS_H

#include <cstddef>
#include <source_location>
#include <string>

namespace emulation {

/* Where a kernel calls something: the default argument place::current() of what it calls. */
typedef std::source_location place;
std::string text_of(const place &at); /* as FILE:LINE */
bool is_same(const place &a, const place &b);

enum { WARP = 32, EXCHANGE = 64 };
constexpr unsigned ALL_LANES = ~0U;

/* Returns when the lanes of the mask have met. what: the name of the call. */
void meet(const char *what, unsigned mask, const place &at);
/*
 * The same; each lane gives `bytes` bytes. Returns those of all lanes, EXCHANGE bytes apart, which stay until the
 * lane's next meeting; those of lanes that the mask does not name are of no meaning.
 */
const char *exchange(const char *what, unsigned mask, const void *mine, size_t bytes, const place &at);
/* How many exchanges the thread has made. */
unsigned exchanges();
/* Ends the process where the thread's last meeting did not name the lane, from which it reads. */
void need_lane(unsigned lane);

/* Before a block of n threads. */
void begin_meetings(unsigned n);
/*
 * When each lane of the warp that begins with thread `first` waits or has ended: of those that wait for a meeting, the
 * ones that have met.
 */
unsigned find_met(unsigned first, unsigned waiting, unsigned ended);

/* emulation.cpp: the thread waits until find_met has named it. */
void wait_for_lanes();

} // namespace emulation

#endif
