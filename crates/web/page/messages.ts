/** What the page and its worker tell each other. */

import type { Facts, Outcome, Part, Protocol } from "../package/windward.ts";

/** Samples of a run, as far as it has come. */
export interface Samples {
    facts: Facts;
    times: Float64Array;
    groups: { goodput: Float64Array; cwnd: Float64Array; srtt: Float64Array }[];
    /** Packets in the queue of the first bottleneck. */
    queue: Float64Array;
}

/** A run and its samples. */
export interface Result extends Samples {
    outcome: Outcome;
    /** CPU time of the run, ms. */
    took: number;
    /** The scenario. */
    text: string;
}

/** An error with its place. */
export interface Fault {
    message: string;
    description: string;
    line: number | null;
    column: number | null;
}

/** Repetition `seed` of set-up `index`. */
export interface Job {
    index: number;
    repetition: number;
    text: string;
    /** Runs although it takes long. */
    insists: boolean;
}

/** `packets` asks for those of `text`, whose run had that outcome. */
export type Ask =
    | { kind: "runs"; id: number; jobs: Job[] }
    | { kind: "packets"; id: number; index: number; text: string; outcome: Outcome }
    | { kind: "catalogue" };

/** `packets` are those of the run with that fingerprint; `null` if they are too many. */
export type Answer =
    | { kind: "half"; id: number; job: Job; samples: Samples }
    | { kind: "result"; id: number; job: Job; result: Result }
    | { kind: "fault"; id: number; job: Job; fault: Fault }
    | { kind: "long"; id: number; job: Job; flows: number; packetHops: number; seconds: number }
    | { kind: "progress"; id: number; share: number }
    | { kind: "done"; id: number }
    | { kind: "packets"; id: number; index: number; fingerprint: string; packets: Float64Array | null }
    | { kind: "catalogue"; protocols: Protocol[]; parts: Part[]; schema: Record<string, unknown>; version: string }
    | { kind: "broken"; message: string };

/** Packet-hops per second that a run is estimated with; the fastest machines do twice as many. */
export const SPEED = 8e6;
/** Seconds to make a flow: 50 µs in Node for 50,000 flows, and more for more. */
export const SETUP = 6e-5;
/** Runs that are estimated to take longer, in seconds, are not begun without being asked for. */
export const LONG = 4;
