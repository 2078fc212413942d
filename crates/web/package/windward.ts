/**
 * The simulator of Windward. A scenario file and a seed give the same result here and in the program `windward`, bit
 * for bit: compare their fingerprints.
 *
 * ```js
 * import { run } from "windward";
 *
 * const outcome = await run(toml, { seed: 9, set: { "dumbbell.bottleneck.queue": "33p" } });
 * console.log(outcome.fingerprint, outcome.groups[0].goodput_bps);
 * ```
 *
 * @module windward
 */

import init, * as engine from "../../../target/web/engine.js";
import compressed from "../../../target/web/wasm.js";

/** Value of a key, as `--set` takes it: TOML if it parses as such, otherwise a text. */
export type Value = string | number | boolean;

/** Changes of a scenario, as options of the command line. */
export interface Changes {
    /** Values by their dotted keys, as `--set KEY=VALUE`, in this order. */
    set?: Readonly<Record<string, Value>>;
    /** Length of the run, as `--duration`. */
    duration?: string;
    /** Seed of all random streams, as `--seed`: 0 to 2^64 - 1. */
    seed?: number | bigint | string;
    /** Stands for the path of the file in errors. */
    name?: string;
}

/** Control over a run. */
export interface Control {
    /** Stops the run, which then throws the reason of the signal. */
    signal?: AbortSignal;
    /** Is called now and then with the share of the run that is done, 0 to 1. */
    onProgress?: (share: number) => void;
}

/** Changes and control of a run. */
export interface RunOptions extends Changes, Control {
    /** Is called with each warning about the scenario. Without it, they go to `console.warn`. */
    onWarning?: (warning: string) => void;
}

/** A row of results. The columns are described in docs/outputs.md. */
export type Row = Record<string, number | string | boolean | null | number[] | Record<string, unknown> | undefined>;

/** Results of a group of flows: rates in bits per second, times in seconds, after the warm-up. */
export interface GroupRow extends Row {
    name: string;
    flows: number;
    goodput_bps: number;
    throughput_bps: number;
    packets_sent: number;
}

/** Results of a run: the JSON that `windward run --json` prints, without `cpu_s`. */
export interface Outcome {
    /** Version of the simulator. */
    windward: string;
    /** The seed. Above 2^53 it is rounded, as JSON is in JavaScript. */
    seed: number;
    duration_s: number;
    warmup_s: number;
    flows: Row[];
    transfers?: Row[];
    groups: GroupRow[];
    links: Row[];
    /** Jain's fairness index over the goodput of the flows. */
    jain: number;
    packet_hops: number;
    events: number;
    /** Hash over every delivery with its time: runs with the same fingerprint are identical. */
    fingerprint: string;
    [key: string]: unknown;
}

/** An instant in seconds, and the bits per second from then on. */
export type Step = [number, number];

/** A directed link, before a run. */
export interface LinkFacts {
    name: string;
    /** Mean rate, bits per second. */
    rate_bps: number;
    /** Its rate over time; `null` if it is not known before a run, or has no limit. */
    rates: Step[] | null;
    delay_s: number;
    /** Share of packets of 1500 bytes that the wire loses. */
    loss: number;
    /** Capacity of the queue in packets, or `null` if it is in bytes. */
    queue_packets: number | null;
    queue_bytes: number | null;
}

/** A group of flows, before a run. */
export interface GroupFacts {
    name: string;
    protocol: string;
    flows: number;
    /** True for flows with a window. */
    is_connection: boolean;
    /** Index of the link at which its throughput is measured. */
    bottleneck: number;
    /** Size of its packets on the wire, bytes. */
    packet_size: number;
    /** Share of its packets that the wires of its route lose. */
    loss: number;
    /**
     * C (1 - p) over time: what its route delivers at most, with p the share that the wires lose. `null` if it is not
     * known before a run, has no limit, or if flows of the group take different routes.
     */
    capacity: Step[] | null;
    /** Round-trip time with empty queues, seconds. */
    rtt_s: number;
}

/** Facts of a scenario that are known before a run. */
export interface Facts {
    duration_s: number;
    warmup_s: number;
    /** Seed, in decimal digits. */
    seed: string;
    /** Estimated number of packet-hops: some ten million take a second. */
    predicted_packet_hops: number;
    warnings: string[];
    links: LinkFacts[];
    groups: GroupFacts[];
    /** Index of the group of each flow. */
    group_of: number[];
}

/** A row of the protocol table, as `windward list --json` has it. */
export interface Protocol {
    name: string;
    summary: string;
    source: string;
    window: string;
    recovery: string;
    discrimination: string;
    feedback: string;
    router: string;
}

/** A part of a protocol or a queue, as `windward list --parts --json` has it. */
export interface Part {
    axis: string;
    name: string;
    what: string;
    source: string;
    parameters: { key: string; default: string; unit: string; range: string; meaning: string }[];
}

/** An error in a scenario. The message is that of the program. */
export class ScenarioError extends Error {
    override name = "ScenarioError";
    /** Line in the scenario, counted from 1. */
    readonly line: number | null = null;
    /** Character of the line, counted from 1. */
    readonly column: number | null = null;
    /** Dotted key. */
    readonly key: string | null = null;
    /** The nearest valid word. */
    readonly suggestion: string | null = null;
    /** The description without the place and the key. */
    readonly description: string;

    /** @internal */
    constructor(wrong: { text: string; message: string } & Partial<ScenarioError>) {
        super(wrong.text);
        this.description = wrong.message;
        this.line = wrong.line ?? null;
        this.column = wrong.column ?? null;
        this.key = wrong.key ?? null;
        this.suggestion = wrong.suggestion ?? null;
    }
}

let ready: Promise<unknown> | undefined;

async function load(): Promise<void> {
    if (typeof WebAssembly !== "object") {
        throw new Error("this browser or runtime has no WebAssembly, which the simulator needs");
    }
    const bytes = Uint8Array.from(atob(compressed), (digit) => digit.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    await init({ module_or_path: await new Response(stream).arrayBuffer() });
}

/** Compiles the simulator, which the other functions do when they are first called. */
export async function prepare(): Promise<void> {
    ready ??= load();
    await ready;
}

/** Maximum memory of all runs at a time, as crates/web/build.sh sets it. */
const MEMORY = "1 GiB";

/** Number of the instance of the module. A failure leaves an instance in no known state, so that another follows. */
let instance = 0;

/** Calls the simulator, and makes an error of what it throws. */
function call<T>(what: () => T): T {
    try {
        return what();
    } catch (thrown) {
        if (typeof thrown === "string" && thrown.startsWith("{")) {
            throw new ScenarioError(JSON.parse(thrown));
        }
        const message = failure(thrown);
        if (message === null) throw thrown;
        instance += 1;
        engine.__wbg_reset_state();
        throw new Error(message, { cause: thrown });
    }
}

/** What happened, if it ends the instance. */
function failure(thrown: unknown): string | null {
    if (thrown instanceof Error && thrown.message.startsWith("panicked at ")) {
        return `the simulator failed, please report it with the scenario: ${thrown.message}`;
    }
    // An allocation that fails aborts without a message. The other one is of Firefox, for the stack.
    if (thrown instanceof WebAssembly.RuntimeError || thrown instanceof RangeError || (thrown instanceof Error && thrown.name === "InternalError")) {
        return `the simulator ran out of memory, of which it has ${MEMORY} here: shorten the run, or use fewer flows, ` +
            "smaller windows or smaller queues; `windward run` has all memory of its machine";
    }
    return null;
}

/** Of Node; browsers lack it. */
declare const setImmediate: ((then: () => void) => void) | undefined;

/** Lets other work of the thread go on. */
function pause(): Promise<void> {
    if (typeof setImmediate === "function") {
        return new Promise((resume) => setImmediate(resume));
    }
    // Unlike timers, messages are not put off in nested calls.
    return new Promise((resume) => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => {
            port1.close();
            resume();
        };
        port2.postMessage(0);
    });
}

/** A slice that takes longer is halved ... */
const LONG_MS = 12;
/** ... and a shorter one is doubled. */
const SHORT_MS = 4;

/** A run in steps, which can be inspected and whose links can be changed in between. */
export class Simulation {
    readonly #run: engine.Run;
    readonly #instance = instance;
    /** Facts that are known before the run. */
    readonly facts: Facts;
    #now = 0;

    /** @internal */
    constructor(run: engine.Run, facts: Facts) {
        this.#run = run;
        this.facts = facts;
    }

    #call<T>(what: () => T): T {
        if (this.#instance === instance) return call(what);
        throw new Error("this run has ended, since the simulator failed in another one: begin it again");
    }

    /** Virtual time reached, seconds. */
    get now(): number {
        return this.#now;
    }

    /** Handles every event up to that instant, in seconds, in slices. */
    async advance(until: number, { signal, onProgress }: Control = {}): Promise<void> {
        const end = Math.min(until, this.facts.duration_s);
        let slice = this.facts.duration_s / Math.max(1, this.facts.predicted_packet_hops / 50_000);
        while (this.#now < end) {
            signal?.throwIfAborted();
            const began = performance.now();
            this.#now = this.#call(() => this.#run.advance(Math.min(end, this.#now + slice)));
            const took = performance.now() - began;
            if (took > LONG_MS) slice = Math.max(slice / 2, 1e-9);
            else if (took < SHORT_MS) slice *= 2;
            onProgress?.(this.#now / this.facts.duration_s);
            if (this.#now < end) await pause();
        }
        signal?.throwIfAborted();
    }

    /** Changes a link from now on; packets in transmission finish as they began. Needs `changes: true`. */
    changeLink(name: string, change: { rate?: string; delay?: string; loss?: Value }): void {
        const text = (value?: Value) => (value === undefined ? undefined : String(value));
        this.#call(() => this.#run.changeLink(name, change.rate, change.delay, text(change.loss)));
    }

    /** Runs to the end and returns the results. Samples stay; the simulation cannot go on. */
    async finish(control: Control = {}): Promise<Outcome> {
        await this.advance(this.facts.duration_s, control);
        return JSON.parse(this.#call(() => this.#run.finish()));
    }

    /** Instants of the samples so far, seconds. */
    times(): Float64Array {
        return this.#call(() => this.#run.times());
    }

    /** A quantity of a flow at each sample. Needs `flows: true`. */
    flow(index: number, quantity: "goodput_bps" | "cwnd_packets" | "srtt_s"): Float64Array {
        return this.#call(() => this.#run.flow(index, quantity));
    }

    /**
     * A quantity of a group at each sample: the sum of goodputs, or of throughputs at the bottleneck, the mean window,
     * the mean smoothed RTT.
     */
    group(index: number, quantity: "goodput_bps" | "throughput_bps" | "cwnd_packets" | "srtt_s"): Float64Array {
        return this.#call(() => this.#run.group(index, quantity));
    }

    /** A quantity of a bottleneck at each sample; losses are counted from the start. */
    link(index: number, quantity: "queue_packets" | "dropped" | "corrupted"): Float64Array {
        return this.#call(() => this.#run.link(index, quantity));
    }

    /**
     * Packets of the watched link in the order in which they left it, three numbers each: the instant in seconds,
     * the index of the flow, and 0 if it passed, 1 if the channel destroyed it, 2 if the queue dropped it. Throws if
     * there were more than 400,000.
     */
    packets(): Float64Array {
        return this.#call(() => this.#run.packets());
    }

    /** Frees its memory, which the garbage collector otherwise does at some time. */
    free(): void {
        // That of an instance that failed is gone.
        if (this.#instance === instance) this.#run.free();
    }
}

function changes({ set, duration, seed }: Changes): string[] {
    const all = Object.entries(set ?? {});
    if (duration !== undefined) all.push(["duration", duration]);
    if (seed !== undefined) {
        const text = String(seed);
        if (!/^\d+$/.test(text) || BigInt(text) >= 1n << 64n) {
            throw new Error("a seed is a whole number from 0 to 18446744073709551615");
        }
        all.push(["seed", text]);
    }
    return all.flatMap(([key, value]) => [key, String(value)]);
}

async function read(toml: string, options: Changes): Promise<engine.Run> {
    await prepare();
    return call(() => new engine.Run(options.name ?? "scenario.toml", toml, changes(options)));
}

/** Facts of a scenario. Throws a [`ScenarioError`] with the words of the program if it is not valid. */
export async function describe(toml: string, options: Changes = {}): Promise<Facts> {
    const run = await read(toml, options);
    const facts: Facts = JSON.parse(call(() => run.facts()));
    run.free();
    return facts;
}

/** Options of [`begin`]. */
export interface BeginOptions extends RunOptions {
    /** Interval of samples, seconds. */
    interval?: number;
    /** Samples each flow too, as `windward run --plot` draws them. */
    flows?: boolean;
    /** Lets links change. The run takes longer, with the same result while none does. */
    changes?: boolean;
    /** Index of a link whose packets are kept. */
    watch?: number;
}

/** A simulation at time zero. */
export async function begin(toml: string, options: BeginOptions = {}): Promise<Simulation> {
    const run = await read(toml, options);
    const facts: Facts = JSON.parse(call(() => run.facts()));
    facts.warnings.forEach(options.onWarning ?? ((warning) => console.warn(`warning: ${warning}`)));
    call(() => run.begin(options.interval ?? Infinity, options.flows ?? false, options.changes ?? false, options.watch));
    return new Simulation(run, facts);
}

/**
 * Runs a scenario and returns its results, those of `windward run --json`.
 *
 * Throws a [`ScenarioError`] with the words of the program if the scenario is not valid.
 */
export async function run(toml: string, options: RunOptions = {}): Promise<Outcome> {
    const simulation = await begin(toml, options);
    try {
        return await simulation.finish(options);
    } finally {
        simulation.free();
    }
}

/** The protocol table. */
export async function protocols(): Promise<Protocol[]> {
    await prepare();
    return JSON.parse(engine.protocols());
}

/** All parts of protocols and queues. */
export async function parts(): Promise<Part[]> {
    await prepare();
    return JSON.parse(engine.parts());
}

/** JSON Schema of scenario files. */
export async function schema(): Promise<Record<string, unknown>> {
    await prepare();
    return JSON.parse(engine.schema());
}

/** The version of the simulator. */
export async function version(): Promise<string> {
    await prepare();
    return engine.version();
}
