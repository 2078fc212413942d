/* SPDX-License-Identifier: MIT OR GPL-2.0
 *
 * The types of the Linux kernel as far as these programs use them. The loader finds the place of
 * each member in the running kernel (BPF CO-RE), so that one object runs on many of them.
 */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed int __s32;
typedef signed long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* include/uapi/linux/bpf.h */
enum bpf_map_type {
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_F_NO_PREALLOC = 1 };
enum { BPF_SK_STORAGE_GET_F_CREATE = 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	union {
		__u8 u6_addr8[16];
	} in6_u;
};

struct sock_common {
	__be32 skc_daddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
};

enum sk_pacing { SK_PACING_NONE = 0, SK_PACING_NEEDED = 1, SK_PACING_FQ = 2 };

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
	__u32 sk_pacing_status;
};

struct minmax_sample {
	__u32 t;
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_rack {
	__u32 rtt_us;
};

struct tcp_sock {
	struct sock sk; /* not at this place: only its address is used */
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 data_segs_out;
	__u64 first_tx_mstamp;
	__u32 lost_out;
	__u32 sacked_out;
	__u64 tcp_mstamp;
	__u32 srtt_us;
	__u32 packets_out;
	__u32 retrans_out;
	__u32 snd_ssthresh;
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 lost;
	__u32 app_limited;
	__u32 mss_cache;
	__u32 prior_cwnd;
	__u32 max_packets_out;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	struct minmax rtt_min;
	struct tcp_rack rack;
	__u8 is_cwnd_limited : 1;
};

struct rate_sample {
	__u32 acked_sacked;
	bool is_retrans;
	bool is_ack_delayed;
};

#pragma clang attribute pop

/* tcp_is_cwnd_limited() of Linux. The place of a bit in its byte differs between kernels, and only this
 * macro finds it.
 */
static inline __attribute__((always_inline)) bool is_cwnd_limited(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

enum tcp_ca_state { TCP_CA_Open = 0, TCP_CA_Disorder = 1, TCP_CA_CWR = 2, TCP_CA_Recovery = 3, TCP_CA_Loss = 4 };
