/** Runs simulations for the page, the latest request first. */

import { ScenarioError, begin, describe, parts, protocols, schema, version } from "../package/windward.ts";
import { type Answer, type Ask, type Fault, LONG, type Job, SETUP, SPEED } from "./messages.ts";

const SAMPLES = 300;
const WATCHED_HOPS = 6e6;

const tell = (answer: Answer, moved: ArrayBuffer[] = []) => (postMessage as (answer: Answer, moved: ArrayBuffer[]) => void)(answer, moved);

let stop = new AbortController();
let running: Promise<void> = Promise.resolve();

function fault(error: unknown): Fault {
    const message = error instanceof Error ? error.message : String(error);
    if (error instanceof ScenarioError) {
        return { message, description: error.description, line: error.line, column: error.column };
    }
    return { message, description: message, line: null, column: null };
}

async function runs(id: number, jobs: Job[], signal: AbortSignal) {
    for (const job of jobs) {
        if (signal.aborted) return;
        try {
            await one(id, job, signal);
        } catch (error) {
            if (signal.aborted) return;
            if (!(error instanceof ScenarioError)) tell({ kind: "broken", message: fault(error).message });
            tell({ kind: "fault", id, job, fault: fault(error) });
        }
    }
    tell({ kind: "done", id });
}

async function one(id: number, job: Job, signal: AbortSignal) {
    const changes = job.repetition > 0 ? { seed: BigInt((await describe(job.text)).seed) + BigInt(job.repetition) } : {};
    const facts = await describe(job.text, changes);
    const seconds = facts.predicted_packet_hops / SPEED + facts.group_of.length * SETUP;
    if (!job.insists && seconds > LONG) {
        tell({ kind: "long", id, job, flows: facts.group_of.length, packetHops: facts.predicted_packet_hops, seconds });
        return;
    }
    const simulation = await begin(job.text, { ...changes, interval: facts.duration_s / SAMPLES, onWarning() {} });
    try {
        let told = performance.now();
        const began = told;
        const control = {
            signal,
            onProgress(share: number) {
                if (performance.now() - told < 150) return;
                told = performance.now();
                tell({ kind: "progress", id, share });
            },
        };
        const samples = () => ({
            facts,
            times: simulation.times(),
            groups: facts.groups.map((_, index) => ({
                goodput: simulation.group(index, "goodput_bps"),
                cwnd: simulation.group(index, "cwnd_packets"),
                srtt: simulation.group(index, "srtt_s"),
            })),
            queue: simulation.link(facts.groups[0].bottleneck, "queue_packets"),
        });
        if (job.repetition === 0) {
            await simulation.advance(facts.duration_s / 2, control);
            tell({ kind: "half", id, job, samples: samples() });
            // A later request that came meanwhile is heard.
            await new Promise((resume) => setTimeout(resume));
        }
        const outcome = await simulation.finish(control);
        const took = performance.now() - began;
        tell({ kind: "result", id, job, result: { ...samples(), outcome, took, text: job.text } });
    } finally {
        simulation.free();
    }
}

async function watch({ id, index, text, outcome }: Extract<Ask, { kind: "packets" }>, signal: AbortSignal) {
    if (outcome.packet_hops > WATCHED_HOPS) {
        tell({ kind: "packets", id, index, fingerprint: outcome.fingerprint, packets: null });
        return;
    }
    const facts = await describe(text);
    const simulation = await begin(text, { watch: facts.groups[0].bottleneck, onWarning() {} });
    try {
        const { fingerprint } = await simulation.finish({ signal });
        let packets: Float64Array | null = null;
        try {
            packets = simulation.packets();
        } catch {
            // Too many of them.
        }
        const moved = packets ? [packets.buffer as ArrayBuffer] : [];
        tell({ kind: "packets", id, index, fingerprint, packets }, moved);
    } finally {
        simulation.free();
    }
}

/** Work after what runs now, unless a later request stops it. */
function queue(work: (signal: AbortSignal) => Promise<void>) {
    const { signal } = stop;
    running = running.then(() => (signal.aborted ? undefined : work(signal))).catch((error) => {
        if (!signal.aborted && !(error instanceof ScenarioError)) tell({ kind: "broken", message: fault(error).message });
    });
}

onmessage = ({ data }: MessageEvent<Ask>) => {
    switch (data.kind) {
        case "runs":
            stop.abort();
            stop = new AbortController();
            queue((signal) => runs(data.id, data.jobs, signal));
            break;
        case "packets":
            queue((signal) => watch(data, signal));
            break;
        case "catalogue":
            queue(async () => {
                const all = await Promise.all([protocols(), parts(), schema(), version()]);
                tell({ kind: "catalogue", protocols: all[0], parts: all[1], schema: all[2], version: all[3] });
            });
            break;
    }
};
