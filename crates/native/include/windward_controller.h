/* A congestion controller in C, C++ or any language with C's calling convention, for
 * `windward evaluate ./libmine.so`. Windward needs only this file; nothing is linked.
 *
 * A library exports one table of functions, named `windward_controller`:
 *
 *     const struct windward_controller windward_controller = {
 *         .version = WINDWARD_CONTROLLER_VERSION, .size = sizeof(struct windward_controller), ...
 *     };
 *
 * Units: times are nanoseconds since the start of the run, sizes and windows are bytes on the
 * wire, rates are bytes per second. There is no other clock.
 *
 * Calls: `create` once for each connection, then the events of that connection in the order of
 * time. Several connections run at once, each by one thread at a time. Keep all state in what
 * `create` returns: a global variable is shared by connections that know nothing of each other.
 * After each event `cwnd` is called, and `pacing_rate` if there is one.
 */
#ifndef WINDWARD_CONTROLLER_H
#define WINDWARD_CONTROLLER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this file. A library of another version is refused with a word. */
#define WINDWARD_CONTROLLER_VERSION 1

/* A connection, for `create`. */
struct windward_setup {
    uint64_t packet_size;    /* bytes of a full packet on the wire */
    uint64_t initial_window; /* bytes */
    uint64_t seed;           /* for controllers that draw random numbers */
};

/* An acknowledgment. */
struct windward_ack {
    uint64_t now_ns;
    uint64_t sent_ns;         /* when the acknowledged packet was sent */
    uint64_t delivered_bytes; /* that it reports as arrived */
    uint64_t lost_bytes;      /* found lost by it */
    uint64_t growth_bytes;    /* by which a window may grow on it as TCP's does (RFC 3465); 0 in
                                 loss recovery, on old data, and while the window does not limit
                                 the sender */
    uint64_t rtt_ns;          /* the sample; 0 before the first */
    uint64_t min_rtt_ns;      /* the smallest sample; 0 before the first */
    uint64_t srtt_ns;         /* smoothed (RFC 6298); 0 before the first */
    uint64_t in_flight_bytes; /* outstanding before it, no more than the window */
    uint64_t delivery_rate;   /* of its sample; 0 without one, see WINDWARD_NEEDS_RATES */
    uint64_t total_bytes;     /* delivered since the start */
    uint32_t in_recovery;     /* 1 during the recovery of a window that `on_loss` was told of */
    uint32_t marked;          /* 1 if it echoes an ECN mark */
};

/* Congestion, by a loss or a mark: at most once per window (RFC 5681, RFC 3168). */
struct windward_loss {
    uint64_t now_ns;
    uint64_t sent_ns; /* when the packet was sent whose acknowledgment reported it */
    uint64_t in_flight_bytes;
    uint32_t marked; /* 1 if an ECN mark reported it and no loss */
    uint32_t reserved;
};

/* The retransmission timer expired, or everything was lost for long (RFC 9002 section 7.6). */
struct windward_timeout {
    uint64_t now_ns;
    uint64_t in_flight_bytes;
    uint64_t restart_window; /* window that the standard leaves, bytes (RFC 5681 equation (4)) */
    uint32_t repeated;       /* 1 if no new data was acknowledged since the last one */
    uint32_t reserved;
};

/* Bits of `needs`. */
#define WINDWARD_NEEDS_RATES 1u /* delivery rates; then loss recovery is that of RFC 9002 */

struct windward_controller {
    uint32_t version; /* WINDWARD_CONTROLLER_VERSION */
    uint32_t size;    /* sizeof(struct windward_controller) */
    uint32_t needs;   /* WINDWARD_NEEDS_.. */
    uint32_t reserved;
    const char *name;        /* in reports: letters, digits, - and _ */
    const char *description; /* one sentence; may be NULL */

    /* State of a connection; never NULL. */
    void *(*create)(const struct windward_setup *setup);
    void (*on_ack)(void *state, const struct windward_ack *ack);
    void (*on_loss)(void *state, const struct windward_loss *loss);
    void (*on_timeout)(void *state, const struct windward_timeout *timeout);
    /* The window, bytes. A number of at least one packet and at most 2^20 packets. */
    double (*cwnd)(void *state);
    /* The pacing rate, bytes per second: a finite number, at least a packet in ten seconds; 0 for
     * no limit but the window. The function may be NULL. */
    double (*pacing_rate)(void *state);
    void (*destroy)(void *state);
};

#ifdef __cplusplus
}
#endif

#endif
