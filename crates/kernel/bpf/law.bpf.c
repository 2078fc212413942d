/* SPDX-License-Identifier: MIT OR GPL-2.0
 *
 * A congestion controller of Linux whose window is a law: two expressions that a user writes, without
 * a program outside of the kernel. crates/kernel/src/law.rs compiles them; this program evaluates
 * them with a stack.
 *
 * The kernel detects losses, retransmits, paces and restarts after a timeout. The events are those of
 * `Expressions` in crates/core/src/endpoint/window/expressions.rs:
 *
 * - `on_ack` is the window after an ACK of new data, outside of loss recovery and of slow start,
 *   while the window limits the sender.
 * - `on_loss` is the window and ssthresh after congestion, once in a window. The kernel reaches it by
 *   proportional rate reduction (RFC 6937), where the sender of core has it at once.
 *
 * Differences from core: numbers have fixed point, and ssthresh is whole, for the kernel keeps it;
 * a window is at least two packets, except the kernel's own after a timeout; and the kernel takes the
 * reduction after a spurious loss back.
 *
 * Its name differs from that of `windward.bpf.c`: both may have connections at a time, and `ss -i`
 * tells them apart.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define LENGTH 64 /* operations of an expression */
#define DEPTH 16 /* numbers on the stack */
#define LEAVES 16
#define LARGEST_WINDOW (1U << 20) /* packets: LARGEST_WINDOW of core */

/* Numbers have 24 bits after the point and 39 before it. With 16, a growth by 1/100000 of a packet
 * would be wrong by half, and a time by 15 microseconds.
 *
 * Infinities and what is not a number are values, with the rules of IEEE 754, which core has too: what
 * is out of the range is infinite. But there is one zero: 1/-0 is not minus infinity.
 */
#define POINT 24
#define ONE (1LL << POINT)
#define INFINITE 0x7fffffffffffffffLL
#define NOT_A_NUMBER (-INFINITE - 1)

enum code { NUMBER, LEAF, NEGATE, ABS, ADD, SUBTRACT, MULTIPLY, DIVIDE, MIN, MAX, AT_LEAST, IF };

enum leaf {
	CWND,
	SSTHRESH,
	INITIAL_WINDOW,
	IN_FLIGHT,
	GROWTH,
	RTT,
	SRTT,
	MIN_RTT,
	DELIVERY_RATE,
	NOW,
	SINCE_LOSS,
	LOSS_CWND,
};

enum which { ON_ACK, ON_LOSS };

struct operation {
	__u32 code;
	__u32 leaf;
	__s64 number;
};

/* crates/kernel/src/law.rs writes it. */
struct law {
	__u32 slow_start;
	__u32 leaves; /* a bit for each that is read */
	__u32 lengths[2];
	struct operation operations[2 * LENGTH];
};

/* The kernel interrupts an ACK with that of another connection: each has a machine of its own. */
struct machine {
	__s64 stack[DEPTH];
	__s64 leaves[LEAVES];
	__u32 top;
	__u32 pad;
};

struct connection {
	struct machine machine;
	__s64 cwnd; /* with its fraction */
	__u32 whole; /* snd_cwnd for which it holds */
	__u32 initial_window, loss_cwnd;
	__u32 pad;
	__u64 start_us, loss_us;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct connection);
} connections SEC(".maps");

/* The law, in a map of its own. A new law is a new map: its update here is one pointer, so that no ACK
 * sees half of a law.
 */
struct law_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct law));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct law_map);
} laws SEC(".maps");

/* For `evaluate`. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct machine);
} machines SEC(".maps");

/* Counters since the load. crates/kernel/src/law/controller.rs reads them. */
struct counters {
	__u64 connections, acks, losses;
	__u64 invalid[2]; /* results by expression that are no window */
	__s64 latest[2]; /* the latest of them */
};
struct counters counters;

#define COUNT(what) __sync_fetch_and_add(&counters.what, 1)

static __always_inline __u64 size(__s64 x)
{
	return x < 0 ? -(__u64)x : x;
}

static __always_inline __s64 signed_by(bool negative, __u64 x)
{
	if (x > INFINITE)
		x = INFINITE;
	return negative ? -(__s64)x : (__s64)x;
}

static __always_inline __s64 negate(__s64 x)
{
	return x == NOT_A_NUMBER ? x : -x;
}

static __always_inline __s64 add(__s64 x, __s64 y)
{
	__s64 sum;

	if (x == NOT_A_NUMBER || y == NOT_A_NUMBER)
		return NOT_A_NUMBER;
	if (size(x) == INFINITE)
		return y == -x ? NOT_A_NUMBER : x;
	if (size(y) == INFINITE)
		return y;
	sum = (__u64)x + (__u64)y;
	if (((x ^ sum) & (y ^ sum)) < 0 || sum == NOT_A_NUMBER)
		return x < 0 ? -INFINITE : INFINITE;
	return sum;
}

static __always_inline __s64 multiply(__s64 x, __s64 y)
{
	__u64 a = size(x), b = size(y), middle, low, high, lowest;
	bool negative = (x < 0) != (y < 0);

	if (x == NOT_A_NUMBER || y == NOT_A_NUMBER)
		return NOT_A_NUMBER;
	if (a == INFINITE || b == INFINITE)
		return a && b ? signed_by(negative, INFINITE) : NOT_A_NUMBER;
	/* 128 bits of product, by halves, and half of a unit for rounding. */
	middle = (a >> 32) * (__u32)b + (b >> 32) * (__u32)a;
	low = (a & 0xffffffff) * (b & 0xffffffff);
	high = (a >> 32) * (b >> 32) + (middle >> 32);
	lowest = low + (middle << 32);
	high += lowest < low;
	low = lowest + (1ULL << (POINT - 1));
	high += low < lowest;
	if (high >> (POINT - 1))
		return signed_by(negative, INFINITE);
	return signed_by(negative, high << (64 - POINT) | low >> POINT);
}

static __always_inline __s64 divide(__s64 x, __s64 y)
{
	__u64 a = size(x), b = size(y), quotient, rest;
	bool negative = (x < 0) != (y < 0);

	if (x == NOT_A_NUMBER || y == NOT_A_NUMBER)
		return NOT_A_NUMBER;
	if (a == INFINITE || !b)
		return b == INFINITE || !a ? NOT_A_NUMBER : signed_by(negative, INFINITE);
	if (b == INFINITE)
		return 0;
	if (!(a >> (63 - POINT)))
		return signed_by(negative, ((a << POINT) + (b >> 1)) / b);
	quotient = a / b;
	rest = a % b;
	if (quotient >> (63 - POINT))
		return signed_by(negative, INFINITE);
	/* The places after the point, eight at a time, for which there must be room. */
	if (b >> 56) {
		b >>= 8;
		rest >>= 8;
	}
#pragma unroll
	for (int i = 0; i < POINT / 8; i++) {
		rest <<= 8;
		quotient = (quotient << 8) + rest / b;
		rest %= b;
	}
	return signed_by(negative, quotient);
}

struct evaluation {
	struct law *law;
	struct machine *machine;
	__u32 first; /* operation */
};

/* One operation. Any law is safe here: places wrap around. */
static long operate(__u32 index, struct evaluation *e)
{
	struct machine *m = e->machine;
	struct operation *o;
	__u32 at = e->first + index, top = m->top;
	__s64 x, y, z, result;

	if (at >= 2 * LENGTH)
		return 1;
	o = &e->law->operations[at];
	switch (o->code) {
	case NUMBER:
		m->stack[top % DEPTH] = o->number;
		m->top = top + 1;
		return 0;
	case LEAF:
		m->stack[top % DEPTH] = m->leaves[o->leaf % LEAVES];
		m->top = top + 1;
		return 0;
	}
	y = m->stack[(top - 1) % DEPTH];
	if (o->code == NEGATE || o->code == ABS) {
		if (o->code == NEGATE || y < 0)
			y = negate(y);
		m->stack[(top - 1) % DEPTH] = y;
		return 0;
	}
	x = m->stack[(top - 2) % DEPTH];
	if (o->code == IF) {
		z = m->stack[(top - 3) % DEPTH];
		m->stack[(top - 3) % DEPTH] = z ? x : y;
		m->top = top - 2;
		return 0;
	}
	switch (o->code) {
	case ADD:
		result = add(x, y);
		break;
	case SUBTRACT:
		result = add(x, negate(y));
		break;
	case MULTIPLY:
		result = multiply(x, y);
		break;
	case DIVIDE:
		result = divide(x, y);
		break;
	default:
		/* Comparisons: as in core, what is not a number stays so. */
		if (x == NOT_A_NUMBER || y == NOT_A_NUMBER)
			result = NOT_A_NUMBER;
		else if (o->code == MIN)
			result = x < y ? x : y;
		else if (o->code == MAX)
			result = x > y ? x : y;
		else
			result = x >= y ? ONE : 0;
	}
	m->stack[(top - 2) % DEPTH] = result;
	m->top = top - 1;
	return 0;
}

static __always_inline __s64 value(struct law *law, struct machine *machine, enum which which)
{
	struct evaluation e = { law, machine, which * LENGTH };

	machine->top = 0;
	machine->stack[0] = NOT_A_NUMBER;
	bpf_loop(law->lengths[which], operate, &e, 0);
	return machine->stack[0];
}

static __always_inline struct law *current(void)
{
	__u32 zero = 0;
	void *map = bpf_map_lookup_elem(&laws, &zero);

	return map ? bpf_map_lookup_elem(map, &zero) : 0;
}

static __always_inline struct tcp_sock *tcp(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline __s64 seconds(__u64 us)
{
	return us / 1000000 * ONE + us % 1000000 * ONE / 1000000;
}

static __always_inline __u64 since(__u64 now, __u64 then)
{
	return now > then ? now - then : 0;
}

/* Evaluates an expression of the law for a connection at an ACK of so many packets. Only the leaves that
 * it reads are computed.
 */
static __always_inline __s64 window_by(struct tcp_sock *tp, struct connection *c, struct law *law,
				       enum which which, __u32 acked, __s64 growth)
{
	struct machine *m = &c->machine;
	__u32 leaves = law->leaves, rtt, outstanding;

	m->leaves[CWND] = c->cwnd;
	m->leaves[GROWTH] = growth;
	if (leaves & 1 << SSTHRESH) {
		m->leaves[SSTHRESH] = tp->snd_ssthresh * ONE;
		if (!law->slow_start)
			m->leaves[SSTHRESH] = 0;
		else if (tp->snd_ssthresh >= 0x7fffffff)
			m->leaves[SSTHRESH] = INFINITE;
	}
	m->leaves[INITIAL_WINDOW] = c->initial_window * ONE;
	m->leaves[LOSS_CWND] = c->loss_cwnd * ONE;
	if (leaves & 1 << IN_FLIGHT) {
		/* FlightSize of RFC 5681 before this ACK, without what limited transmit let out. */
		outstanding = tp->packets_out + acked;
		m->leaves[IN_FLIGHT] = (outstanding < tp->snd_cwnd ? outstanding : tp->snd_cwnd) * ONE;
	}
	if (leaves & 1 << RTT)
		m->leaves[RTT] = seconds(tp->rack.rtt_us);
	if (leaves & 1 << SRTT) /* srtt_us is in eighths */
		m->leaves[SRTT] = tp->srtt_us * (ONE / 8) / 1000000U;
	if (leaves & 1 << MIN_RTT) {
		rtt = tp->rtt_min.s[0].v;
		m->leaves[MIN_RTT] = rtt == ~0U ? 0 : seconds(rtt);
	}
	if (leaves & 1 << DELIVERY_RATE) {
		m->leaves[DELIVERY_RATE] = 0;
		if (tp->rate_interval_us)
			m->leaves[DELIVERY_RATE] =
				divide(tp->rate_delivered * ONE, seconds(tp->rate_interval_us));
	}
	if (leaves & 1 << NOW)
		m->leaves[NOW] = seconds(since(tp->tcp_mstamp, c->start_us));
	if (leaves & 1 << SINCE_LOSS)
		m->leaves[SINCE_LOSS] = seconds(since(tp->tcp_mstamp, c->loss_us));
	return value(law, m, which);
}

/* The fraction of the window, unless the kernel has changed the window. */
static __always_inline void resume(struct tcp_sock *tp, struct connection *c)
{
	if (c->whole != tp->snd_cwnd) {
		c->whole = tp->snd_cwnd;
		c->cwnd = c->whole * ONE;
	}
}

static __always_inline void set_window(struct tcp_sock *tp, struct connection *c, __s64 window)
{
	__u32 whole = window >> POINT;

	if (whole > tp->snd_cwnd_clamp) {
		whole = tp->snd_cwnd_clamp;
		window = whole * ONE;
	}
	c->cwnd = window;
	c->whole = tp->snd_cwnd = whole;
}

static __always_inline void invalid(enum which which, __s64 window)
{
	COUNT(invalid[which]);
	counters.latest[which] = window;
}

SEC("struct_ops")
void BPF_PROG(start, struct sock *sk)
{
	struct tcp_sock *tp = tcp(sk);
	struct connection *c = bpf_sk_storage_get(&connections, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!c)
		return;
	__builtin_memset(c, 0, sizeof(*c));
	c->initial_window = c->loss_cwnd = tp->snd_cwnd;
	c->start_us = c->loss_us = bpf_ktime_get_ns() / 1000;
	COUNT(connections);
}

/* The kernel calls it outside of loss recovery. `grow` of core. */
SEC("struct_ops")
void BPF_PROG(cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp(sk);
	__s64 window, ssthresh, growth = acked * ONE;
	struct connection *c;
	struct law *law;

	if (!acked || !is_cwnd_limited(tp))
		return;
	c = bpf_sk_storage_get(&connections, sk, 0, 0);
	law = current();
	if (!c || !law)
		return;
	COUNT(acks);
	resume(tp, c);
	ssthresh = tp->snd_ssthresh * ONE;
	if (law->slow_start && c->cwnd < ssthresh) {
		/* RFC 5681, equation (2). Growth beyond ssthresh counts for congestion avoidance. */
		window = c->cwnd + growth;
		if (acked == 1 || window <= ssthresh) {
			set_window(tp, c, window > LARGEST_WINDOW * ONE ? LARGEST_WINDOW * ONE : window);
			return;
		}
		growth = window - ssthresh;
		set_window(tp, c, ssthresh);
	}
	window = window_by(tp, c, law, ON_ACK, acked, growth);
	/* Core keeps the window too, and ends the run. */
	if (window < ONE || window > LARGEST_WINDOW * ONE) {
		invalid(ON_ACK, window);
		return;
	}
	set_window(tp, c, window < 2 * ONE ? 2 * ONE : window);
}

/* `reduced` of core. The kernel calls it once in a window, and at the first of repeated timeouts, after
 * which it restarts with one packet.
 */
SEC("struct_ops")
__u32 BPF_PROG(ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp(sk);
	struct connection *c = bpf_sk_storage_get(&connections, sk, 0, 0);
	struct law *law = current();
	__s64 window;

	if (!c || !law)
		return tp->snd_cwnd < 4 ? 2 : tp->snd_cwnd >> 1;
	COUNT(losses);
	resume(tp, c);
	window = window_by(tp, c, law, ON_LOSS, 0, 0);
	if (window < 0 || window > LARGEST_WINDOW * ONE) {
		invalid(ON_LOSS, window);
		window = c->cwnd;
	}
	if (window < 2 * ONE)
		window = 2 * ONE;
	c->loss_us = tp->tcp_mstamp;
	c->loss_cwnd = tp->snd_cwnd;
	c->cwnd = window;
	c->whole = window >> POINT;
	return c->whole;
}

SEC("struct_ops")
__u32 BPF_PROG(undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp(sk);

	return tp->snd_cwnd > tp->prior_cwnd ? tp->snd_cwnd : tp->prior_cwnd;
}

/* A law, without a connection: for tests. */
struct question {
	__s64 leaves[LEAVES];
	__u64 which;
	__s64 result;
};

SEC("syscall")
int evaluate(struct question *question)
{
	__u32 zero = 0;
	struct machine *machine = bpf_map_lookup_elem(&machines, &zero);
	struct law *law = current();

	if (!machine || !law)
		return 1;
#pragma unroll
	for (int i = 0; i < LEAVES; i++)
		machine->leaves[i] = question->leaves[i];
	question->result = value(law, machine, question->which ? ON_LOSS : ON_ACK);
	return 0;
}

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	__u32 (*undo_cwnd)(struct sock *sk);
	__u32 flags;
	char name[16];
	void (*init)(struct sock *sk);
};

SEC(".struct_ops.link")
struct tcp_congestion_ops windward_law = {
	.init = (void *)start,
	.cong_avoid = (void *)cong_avoid,
	.ssthresh = (void *)ssthresh,
	.undo_cwnd = (void *)undo_cwnd,
	.name = "windward_law",
};
