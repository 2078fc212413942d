/* SPDX-License-Identifier: MIT OR GPL-2.0
 *
 * A congestion controller of Linux whose windows a program outside of the kernel computes.
 *
 * The kernel detects losses, retransmits and paces. This program sums up what it tells of a
 * connection, and reports it (`events`): every sixteenth of a round trip, and at once on a loss, a
 * mark and a timeout. The daemon answers with a window and a pacing rate (`answers`), which each ACK
 * applies. If it does not answer within four round trips, NewReno (RFC 6582) goes on here, from half
 * of the window, until it does.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* The kernel refuses licenses that are not compatible with the GPL. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define SLOTS 4096
#define NO_SLOT 0xffffffffU
#define NO_THRESHOLD 0x7fffffffU
#define RETRY_NS 1000000000 /* between two attempts to get a slot */
#define DELAYED_NS 20000000 /* half of Linux's least delay of an ACK */
#define COMPRESSED 3 /* ACKs that Linux sends at once while a packet is missing */

/* Settings of the loader. */
const volatile __u32 least_gap_us = 1000; /* least time between two reports */
const volatile __u32 least_patience_us = 20000; /* least time until NewReno takes over */

enum kind { OPEN = 0, ACK = 1, TIMEOUT = 2, CLOSE = 3 };
enum { APP_LIMITED = 1 };

/* A report. crates/kernel/src/event.rs reads it. */
struct event {
	__u64 connection; /* number of the connection, from 1 */
	__u64 number; /* of the report, from 1 */
	__u64 now_us; /* tcp_mstamp */
	__u64 sent_us; /* when the newest acknowledged packet was sent */
	__u32 slot;
	__u32 kind;
	__u32 delivered, delivered_ce, lost, sent; /* counters since the start, packets */
	__u32 packets_out, sacked_out, lost_out, retrans_out;
	__u32 srtt_us, rtt_us; /* 0 if there is none */
	__u32 mss, cwnd;
	__u32 flags, acks; /* ACKs since the last report */
	__u32 namespace; /* inode of the network namespace */
	__u16 family, remote_port, local_port, pad;
	__u8 remote[16];
};

/* An answer. crates/kernel/src/connection.rs writes it. */
struct answer {
	__u64 connection;
	__u64 number; /* of the report that it answers */
	__u64 pacing_rate; /* bytes per second; 0 without pacing */
	__u32 window; /* packets; 0 if NewReno shall go on */
	__u32 pad;
};

/* What this program remembers of a connection. */
struct connection {
	__u64 id;
	__u64 number; /* of the latest report */
	__u64 reported_ns; /* time of the latest report */
	__u64 asked_ns; /* time of the oldest report without an answer; 0 if there is none */
	__u64 acked_ns; /* time of the latest ACK */
	__u64 rtt_ns; /* time of the latest RTT */
	__u32 slot;
	__u32 lost, delivered_ce; /* when last looked at */
	__u32 recovery; /* snd_nxt at the latest reduction by NewReno */
	__u32 acks;
	__u32 rtt_us; /* least RTT since the report; 0 if there is none */
	__u32 latest_rtt_us, min_rtt_us;
	__u32 una, sacks; /* snd_una, and the ACKs with a hole there */
	__u8 is_new; /* it had sent nothing when it got this controller */
	__u8 driven; /* by the daemon */
	__u8 in_recovery;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct connection);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct answer);
} answers SEC(".maps");

/* Slots that no connection has. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, SLOTS);
	__type(value, __u32);
} slots SEC(".maps");

/* Counters since the load. crates/kernel/src/object.rs reads them. */
struct counters {
	__u64 opened, closed, without_slot;
	__u64 acks, driven, newreno;
	__u64 reports, dropped, timeouts, takeovers;
};
struct counters counters;
__u64 last_id;

extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 w, __u32 acked) __ksym;

#define COUNT(what) __sync_fetch_and_add(&counters.what, 1)

static __always_inline struct tcp_sock *tcp(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline __u32 half(__u32 window)
{
	return window < 4 ? 2 : window >> 1;
}

/* The counters are those before `acked` packets arrived and `losses` were found. */
static __always_inline void report(struct sock *sk, struct connection *c, __u32 kind, __u64 now,
				   __u32 acked, __u32 losses)
{
	struct tcp_sock *tp = tcp(sk);
	struct event *e;

	c->number++;
	c->reported_ns = now;
	if (!c->asked_ns)
		c->asked_ns = now;
	e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		COUNT(dropped);
		return;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->connection = c->id;
	e->number = c->number;
	e->now_us = tp->tcp_mstamp;
	e->sent_us = tp->first_tx_mstamp;
	e->slot = c->slot;
	e->kind = kind;
	e->delivered = tp->delivered - acked;
	e->delivered_ce = tp->delivered_ce;
	e->lost = tp->lost - losses;
	e->sent = tp->data_segs_out;
	e->packets_out = tp->packets_out + acked;
	e->sacked_out = tp->sacked_out;
	e->lost_out = tp->lost_out - losses;
	e->retrans_out = tp->retrans_out;
	e->srtt_us = tp->srtt_us >> 3;
	e->mss = tp->mss_cache;
	e->cwnd = tp->snd_cwnd;
	e->flags = tp->app_limited ? APP_LIMITED : 0;
	e->acks = c->acks;
	e->rtt_us = c->rtt_us;
	e->namespace = sk->__sk_common.skc_net.net->ns.inum;
	e->family = sk->__sk_common.skc_family;
	e->remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
	e->local_port = sk->__sk_common.skc_num;
	if (e->family == 2) /* AF_INET */
		__builtin_memcpy(e->remote, &sk->__sk_common.skc_daddr, 4);
	else
		bpf_probe_read_kernel(e->remote, sizeof(e->remote), &sk->__sk_common.skc_v6_daddr);
	COUNT(reports);
	bpf_ringbuf_submit(e, 0);
}

/* Takes a slot once the connection sends. If all are taken, it tries again each second. */
static __always_inline void open_slot(struct sock *sk, struct connection *c, __u32 acked, __u32 losses,
				      __u64 now)
{
	__u32 slot;

	if (c->reported_ns && now - c->reported_ns < RETRY_NS)
		return;
	if (bpf_map_pop_elem(&slots, &slot)) {
		if (!c->reported_ns)
			COUNT(without_slot);
		c->reported_ns = now;
		return;
	}
	c->slot = slot;
	report(sk, c, c->is_new && !c->reported_ns ? OPEN : ACK, now, acked, losses);
	c->reported_ns = 0; /* and this ACK is reported at once */
}

SEC("struct_ops")
void BPF_PROG(start, struct sock *sk)
{
	struct tcp_sock *tp = tcp(sk);
	struct connection *c = bpf_sk_storage_get(&connections, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!c)
		return;
	__builtin_memset(c, 0, sizeof(*c));
	c->id = __sync_fetch_and_add(&last_id, 1) + 1;
	c->lost = tp->lost;
	c->delivered_ce = tp->delivered_ce;
	c->slot = NO_SLOT;
	c->is_new = !tp->data_segs_out;
	COUNT(opened);
	if (c->is_new)
		tp->snd_ssthresh = NO_THRESHOLD;
	/* An earlier controller of the connection may have set another. */
	sk->sk_pacing_rate = ~0UL;
}

SEC("struct_ops")
void BPF_PROG(release, struct sock *sk)
{
	struct connection *c = bpf_sk_storage_get(&connections, sk, 0, 0);
	struct answer *a;
	__u32 slot;

	if (!c)
		return;
	COUNT(closed);
	slot = c->slot;
	if (slot == NO_SLOT)
		return;
	report(sk, c, CLOSE, bpf_ktime_get_ns(), 0, 0);
	a = bpf_map_lookup_elem(&answers, &slot);
	if (a)
		a->connection = 0;
	c->slot = NO_SLOT;
	bpf_map_push_elem(&slots, &slot, 0);
}

/* Applies the answer of the daemon. False if there is none, or if it is silent. */
static __always_inline bool obey(struct sock *sk, struct connection *c, __u32 acked, __u64 now)
{
	struct tcp_sock *tp = tcp(sk);
	__u32 slot = c->slot, window, patience;
	struct answer *a;

	if (slot == NO_SLOT)
		return 0;
	a = bpf_map_lookup_elem(&answers, &slot);
	if (!a || a->connection != c->id)
		return 0;
	/* srtt_us is in eighths. */
	patience = tp->srtt_us >> 1;
	if (patience < least_patience_us)
		patience = least_patience_us;
	if (a->number == c->number)
		c->asked_ns = 0;
	else if (c->asked_ns && now - c->asked_ns > (__u64)patience * 1000)
		return 0;
	window = a->window;
	if (!window)
		return 0;
	/* A window after NewReno or a timeout comes back as in slow start (RFC 5681 section 3.1). */
	if (!c->driven && window > tp->snd_cwnd + acked)
		window = tp->snd_cwnd + acked;
	else
		c->driven = 1;
	if (window > tp->snd_cwnd_clamp)
		window = tp->snd_cwnd_clamp;
	tp->snd_cwnd = window;
	if (a->pacing_rate) {
		sk->sk_pacing_rate = a->pacing_rate;
		if (!sk->sk_pacing_status)
			sk->sk_pacing_status = SK_PACING_NEEDED;
	} else {
		sk->sk_pacing_rate = ~0UL;
	}
	return 1;
}

/* NewReno for a connection whose daemon is silent. */
static __always_inline void newreno(struct tcp_sock *tp, struct connection *c, __u32 ack, __u32 acked,
				    __u32 losses)
{
	if (c->in_recovery && (__s32)(ack - c->recovery) >= 0)
		c->in_recovery = 0;
	if (c->in_recovery)
		return;
	if (losses) {
		tp->snd_ssthresh = half(tp->snd_cwnd);
		tp->snd_cwnd = tp->snd_ssthresh;
		c->recovery = tp->snd_nxt;
		c->in_recovery = 1;
		return;
	}
	if (!acked || !is_cwnd_limited(tp))
		return;
	if (tp->snd_cwnd < tp->snd_ssthresh) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

/* True if the receiver may have held the ACK back, so that its time is no RTT.
 *
 * It holds the ACK of a single packet in order back for the next packet, or 40 ms and more (RFC 9293
 * section 3.8.6.3): the ACK then comes late after the ACK before it. While a packet is missing, Linux
 * holds all ACKs but the first three for a twentieth of the RTT, at most a millisecond
 * (tcp_comp_sack_delay_ns).
 */
static __always_inline bool is_held(struct tcp_sock *tp, struct connection *c,
				    const struct rate_sample *rs, __u32 rtt, __u64 since)
{
	if (tp->sacked_out)
		return c->sacks > COMPRESSED;
	return rs->acked_sacked == 1 && since >= DELAYED_NS && rtt > c->latest_rtt_us + 1000;
}

/* Takes the RTT of an ACK, which is that of the newest packet, if it is the least since the report. The
 * kernel's own (`rtt_us`) may come from time stamps of a millisecond. Where a receiver holds all ACKs
 * back, one in a round trip counts.
 */
static __always_inline void see_rtt(struct tcp_sock *tp, struct connection *c,
				    const struct rate_sample *rs, __u64 now)
{
	__u64 since = now - c->acked_ns;
	__u32 rtt = tp->tcp_mstamp - tp->first_tx_mstamp;

	if (tp->snd_una != c->una)
		c->sacks = 0;
	if (tp->sacked_out)
		c->sacks++;
	c->una = tp->snd_una;
	c->acked_ns = now;
	if (!rs->acked_sacked || rs->is_ack_delayed)
		return;
	/* The ACK of a first transmission that was taken for lost (RFC 8985 section 6.2). */
	if (rs->is_retrans && rtt < c->min_rtt_us)
		return;
	if (!c->min_rtt_us || rtt < c->min_rtt_us)
		c->min_rtt_us = rtt;
	if (is_held(tp, c, rs, rtt, since) && now - c->rtt_ns < (__u64)(tp->srtt_us >> 3) * 1000)
		return;
	c->latest_rtt_us = rtt;
	c->rtt_ns = now;
	rtt = rtt ? rtt : 1; /* loopback is faster than the clock */
	if (!c->rtt_us || rtt < c->rtt_us)
		c->rtt_us = rtt;
}

static __always_inline void on_ack(struct sock *sk, __u32 ack, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp(sk);
	struct connection *c = bpf_sk_storage_get(&connections, sk, 0, 0);
	__u64 now, gap;
	__u32 losses;

	if (!c)
		return;
	now = bpf_ktime_get_ns();
	losses = tp->lost - c->lost;
	c->lost = tp->lost;
	COUNT(acks);
	if (obey(sk, c, rs->acked_sacked, now)) {
		COUNT(driven);
	} else {
		if (c->driven) {
			c->driven = 0;
			tp->snd_ssthresh = half(tp->snd_cwnd);
			tp->snd_cwnd = tp->snd_ssthresh;
			sk->sk_pacing_rate = ~0UL;
			COUNT(takeovers);
		}
		COUNT(newreno);
		newreno(tp, c, ack, rs->acked_sacked, losses);
	}
	c->acks++;
	see_rtt(tp, c, rs, now);
	if (c->slot == NO_SLOT)
		open_slot(sk, c, rs->acked_sacked, losses, now);
	if (c->slot == NO_SLOT)
		return;
	/* srtt_us is in eighths, and the gap a sixteenth of it. */
	gap = (tp->srtt_us >> 7) < least_gap_us ? least_gap_us : tp->srtt_us >> 7;
	if (losses || tp->delivered_ce != c->delivered_ce || now - c->reported_ns >= gap * 1000) {
		c->delivered_ce = tp->delivered_ce;
		report(sk, c, ACK, now, 0, 0);
		c->acks = c->rtt_us = 0;
	}
}

/* Linux 6.10 gave `cong_control` two more arguments. */
SEC("struct_ops")
void BPF_PROG(control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	on_ack(sk, ack, rs);
}

SEC("struct_ops")
void BPF_PROG(control_before_6_10, struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp(sk);

	/* The acknowledged byte is that of the oldest packet in flight, about. */
	on_ack(sk, tp->snd_nxt - tp->packets_out * tp->mss_cache, rs);
}

SEC("struct_ops")
void BPF_PROG(set_state, struct sock *sk, __u8 state)
{
	struct connection *c;

	if (state != TCP_CA_Loss)
		return;
	c = bpf_sk_storage_get(&connections, sk, 0, 0);
	if (!c)
		return;
	COUNT(timeouts);
	c->driven = 0;
	if (c->slot != NO_SLOT)
		report(sk, c, TIMEOUT, bpf_ktime_get_ns(), 0, 0);
}

SEC("struct_ops")
__u32 BPF_PROG(ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp(sk);
	struct connection *c = bpf_sk_storage_get(&connections, sk, 0, 0);

	/* The daemon decides whether a loss reduces the window. */
	return c && c->driven ? tp->snd_ssthresh : half(tp->snd_cwnd);
}

SEC("struct_ops")
__u32 BPF_PROG(undo_cwnd, struct sock *sk)
{
	return tcp(sk)->snd_cwnd;
}

/* The least burst. Packets of one wait for each other, and the RTT would be that of the first or of the
 * second, as the receiver acknowledges each packet or two.
 */
SEC("struct_ops")
__u32 BPF_PROG(min_tso_segs, struct sock *sk)
{
	return 1;
}

/* Windows of send buffer. Holes stay long under heavy loss, and the usual two stop the sender. */
SEC("struct_ops")
__u32 BPF_PROG(sndbuf_expand, struct sock *sk)
{
	return 8;
}

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, __u8 new_state);
	__u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
	__u32 (*undo_cwnd)(struct sock *sk);
	__u32 (*sndbuf_expand)(struct sock *sk);
	__u32 flags;
	char name[16];
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

/* The controller, by the two kinds of `cong_control`. The loader leaves one of them out. */
#define CONTROLLER(variant, on_control)                 \
	SEC(".struct_ops.link")                         \
	struct tcp_congestion_ops variant = {           \
		.init = (void *)start,                  \
		.release = (void *)release,             \
		.cong_control = (void *)on_control,     \
		.set_state = (void *)set_state,         \
		.ssthresh = (void *)ssthresh,           \
		.undo_cwnd = (void *)undo_cwnd,         \
		.min_tso_segs = (void *)min_tso_segs,   \
		.sndbuf_expand = (void *)sndbuf_expand, \
		.name = "windward",                     \
	}

CONTROLLER(windward, control);
CONTROLLER(windward_before_6_10, control_before_6_10);
