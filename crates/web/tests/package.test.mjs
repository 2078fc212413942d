// The package gives what the program gives: node --test tests/package.test.mjs
//
// WINDWARD is the program, target/release/windward unless set.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { LARGE } from "./large.mjs";
import { ScenarioError, begin, describe, parts, protocols, run, schema } from "../../../target/npm/windward/windward.js";

const root = join(dirname(fileURLToPath(import.meta.url)), "../../..");
const program = process.env.WINDWARD ?? join(root, "target/release/windward");
const file = "experiments/examples/first.toml";
const first = readFileSync(join(root, file), "utf8");
const quiet = { onWarning() {} };

/** Output of the program for a scenario of this text. */
const native = (toml, ...words) => JSON.parse(execFileSync(program, [...words], { cwd: root, input: toml, encoding: "utf8" }));

test("all golden runs have the fingerprints of the native tests", async () => {
    const golden = join(root, "crates/sim/tests/golden");
    const [, ...lines] = readFileSync(join(golden, "fingerprints.csv"), "utf8").trim().split("\n");
    const changed = [];
    for (const line of lines) {
        const [protocol, scenario, sent, hops, fingerprint] = line.split(",");
        const body = readFileSync(join(golden, `${scenario}.toml`), "utf8").replaceAll("PROTOCOL", protocol);
        const outcome = await run(`duration = '5s'\nseed = 7\n${body}`, quiet);
        const mine = [outcome.flows.reduce((sum, flow) => sum + flow.packets_sent, 0), outcome.packet_hops, outcome.fingerprint];
        if (mine.join() !== [sent, hops, fingerprint].join()) changed.push(`${line} but here ${mine}`);
    }
    assert.ok(lines.length > 300);
    assert.deepEqual(changed, []);
});

test("the outcome is that of windward run --json with the same changes", async () => {
    const mine = await run(first, { seed: 9, set: { "dumbbell.bottleneck.queue": "33p", "flows.lossy.count": 2 } });
    const words = ["--set", "dumbbell.bottleneck.queue=33p", "--set", "flows.lossy.count=2", "--seed", "9"];
    const { cpu_s, ...its } = native(first, "run", "-", "--json", ...words);
    assert.ok(cpu_s >= 0);
    assert.deepEqual(mine, its);
});

test("errors are those of the program, with line and column", async () => {
    const wrong = first.replace('protocol = "newreno"', 'protocol = "newrneo"');
    const { stderr } = spawnSync(program, ["run", "-"], { cwd: root, input: wrong, encoding: "utf8" });
    const error = await run(wrong, { name: "standard input" }).catch((error) => error);
    assert.ok(error instanceof ScenarioError && error instanceof Error);
    assert.equal(`error: ${error.message}\n`, stderr);
    // The line of the key in the file.
    assert.equal(error.line, wrong.split("\n").findIndex((line) => line.includes("newrneo")) + 1);
    assert.equal(error.column, 1);
    assert.equal(error.suggestion, "newreno");
    await assert.rejects(run("duration = "), /scenario\.toml:1/);
    await assert.rejects(run(first, { seed: -1 }), /whole number from 0/);
    await assert.rejects(run(`x = ${"[".repeat(100_000)}`), ScenarioError);
    await assert.rejects(run("#".repeat(11 << 20)), /larger than|is empty/);
});

test("an expression that gives no number ends the run with the words of the program", async () => {
    const law = 'protocol = { window = { on_ack = "cwnd * 0 / (rtt - rtt)", on_loss = "cwnd" } }';
    const wrong = first.replaceAll(/^protocol = .*$/gm, law);
    const { stderr } = spawnSync(program, ["run", "-", "--quiet"], { cwd: root, input: wrong, encoding: "utf8" });
    const error = await run(wrong, quiet).catch((error) => error);
    assert.match(error.message, /on_ack/);
    assert.equal(`error: ${error.message}\n`, stderr);
    // The next run is not blamed for it.
    assert.equal((await run(first, quiet)).flows.length, 10);
});

test("flows are sampled if they are asked for, as groups are", async () => {
    const simulation = await begin(first, { interval: 0.5, flows: true, ...quiet });
    await simulation.finish();
    const { groups, group_of: groupOf } = simulation.facts;
    groups.forEach((_, group) => {
        const own = groupOf.flatMap((of, flow) => (of === group ? [flow] : []));
        const mean = (quantity) => simulation.times().map((_, at) => own.reduce((sum, flow) => sum + simulation.flow(flow, quantity)[at], 0) / own.length);
        const near = (mine, its, what) => mine.forEach((value, at) => assert.ok(Math.abs(value - its[at]) <= 1e-9 * Math.abs(its[at]), `${what} ${at}`));
        near(mean("cwnd_packets"), simulation.group(group, "cwnd_packets"), "cwnd");
        near(mean("goodput_bps").map((bps) => bps * own.length), simulation.group(group, "goodput_bps"), "goodput");
        const passed = simulation.group(group, "throughput_bps");
        assert.ok(passed.every((bps) => bps >= 0) && passed.some((bps) => bps > 0));
    });
    const without = await begin(first, { interval: 0.5, ...quiet });
    await without.finish();
    assert.throws(() => without.flow(0, "cwnd_packets"), /no samples of `cwnd_packets` of flow 0/);
});

test("slices and samples change nothing; goodput samples add up to what was delivered", async () => {
    const whole = await run(first, quiet);
    const simulation = await begin(first, { interval: 0.25, ...quiet });
    for (let until = 7; until < 100; until += 13) await simulation.advance(until);
    const outcome = await simulation.finish();
    assert.equal(outcome.fingerprint, whole.fingerprint);
    const times = simulation.times();
    assert.equal(times.length, 400);
    simulation.facts.groups.forEach((group, index) => {
        const goodput = simulation.group(index, "goodput_bps");
        // After the warm-up of 20 s: the mean of equal intervals is the mean rate.
        const kept = goodput.filter((_, at) => times[at] > 20);
        const mean = kept.reduce((sum, rate) => sum + rate, 0) / kept.length;
        const row = outcome.groups.find((row) => row.name === group.name);
        assert.ok(Math.abs(mean / row.goodput_bps - 1) < 1e-9, `${mean} and ${row.goodput_bps}`);
    });
});

test("packets of a link are those that the outcome counts", async () => {
    const facts = await describe(first);
    const watch = facts.groups[0].bottleneck;
    const simulation = await begin(first, { watch, ...quiet });
    const outcome = await simulation.finish();
    assert.equal(outcome.fingerprint, (await run(first, quiet)).fingerprint);
    const fates = [0, 0, 0];
    const packets = simulation.packets();
    for (let at = 2; at < packets.length; at += 3) fates[packets[at]] += 1;
    const link = outcome.links[watch];
    assert.deepEqual(fates.slice(1), [link.corrupted, link.dropped]);
    assert.ok(fates[0] >= link.delivered && fates[0] <= link.delivered + link.in_flight);
});

test("links change in flight, and only where they may", async () => {
    const link = "left->right";
    const named = (await describe(first)).links.map((link) => link.name);
    const bottleneck = named[(await describe(first)).groups[0].bottleneck] ?? link;
    const simulation = await begin(first, { changes: true, ...quiet });
    await simulation.advance(50);
    simulation.changeLink(bottleneck, { rate: "1Mbit", loss: "2%" });
    const outcome = await simulation.finish();
    const before = await run(first, quiet);
    // A fifth of the rate for half of the run, which is 5/8 of what is measured: at most 0.5 of the goodput, with room 0.6.
    assert.ok(outcome.groups[0].goodput_bps < 0.6 * before.groups[0].goodput_bps);
    const fixed = await begin(first, quiet);
    assert.throws(() => fixed.changeLink(bottleneck, { rate: "1Mbit" }), /cannot change/);
    assert.throws(() => fixed.changeLink("nowhere", { rate: "1Mbit" }), /no link `nowhere`/);
    assert.throws(() => fixed.changeLink(bottleneck, { rate: "fast" }), /rate = fast/);
});

test("a run that needs more memory than there is ends with a word, and the next one runs", async () => {
    const { fingerprint } = await run(first, quiet);
    const other = await begin(first, quiet);
    await other.advance(10);
    for (let n = 0; n < 2; n += 1) {
        const error = await run(LARGE, quiet).catch((error) => error);
        assert.match(error.message, /^the simulator ran out of memory, of which it has 1 GiB here: shorten the run/);
        // Another run goes with the memory that failed, and says so.
        await assert.rejects(other.advance(20), /begin it again/);
        other.free();
        assert.equal((await run(first, quiet)).fingerprint, fingerprint);
    }
});

test("a run stops at its signal", async () => {
    const stop = new AbortController();
    const long = run(first, { duration: "1000000s", signal: stop.signal, onProgress: () => stop.abort(), ...quiet });
    await assert.rejects(long, { name: "AbortError" });
});

test("the catalogue is that of windward list, and the schema knows the keys", async () => {
    assert.deepEqual(await protocols(), native("", "list", "--json"));
    assert.deepEqual(await parts(), native("", "list", "--parts", "--json"));
    assert.ok("dumbbell" in (await schema()).properties);
});

test("the program is built", () => assert.ok(existsSync(program)));

test("what a route delivers at most is known before a run, over time and for each group", async () => {
    const example = (name) => readFileSync(join(root, `experiments/examples/${name}.toml`), "utf8");
    const handover = await describe(example("handover"));
    // The rates of the file; nothing is lost on the wires.
    const steps = [[0, 20e6], [20, 4e6], [40, 20e6]];
    assert.deepEqual(handover.links[handover.groups[0].bottleneck].rates, steps);
    assert.deepEqual(handover.groups.map((group) => group.capacity), [steps, steps]);
    // 10 Mbit/s with a bit error rate of 1e-6 behind 20 Mbit/s; 20 Mbit/s without errors; 2 Mbit/s with errors.
    const graph = await describe(example("graph"));
    const passes = (group) => (1 - 1e-6) ** (8 * group.packet_size);
    for (const [name, bps] of [["download", 10e6], ["detour", 20e6], ["upload", 2e6]]) {
        const group = graph.groups.find((each) => each.name === name);
        const [[from, most], ...others] = group.capacity;
        assert.deepEqual([from, others], [0, []]);
        const expected = bps * (name === "detour" ? 1 : passes(group));
        assert.ok(Math.abs(most - expected) < 1e-6 * expected, `${name}: ${most}, not ${expected}`);
    }
});

test("packets that are too many to keep are an error, not the first of them", async () => {
    // 1 Gbit/s are 125,000 packets of 1000 bytes a second.
    const link = '{ rate = "1Gbit", delay = "1ms", queue = "100p" }';
    const fast = `duration = "4s"\n[dumbbell]\nbottleneck = ${link}\naccess = ${link}\n[[flows]]\ngroup = "fast"\ncbr = { rate = "1Gbit", packet_size = 1000 }\n`;
    const { groups } = await describe(fast);
    const simulation = await begin(fast, { watch: groups[0].bottleneck, ...quiet });
    await simulation.finish();
    assert.throws(() => simulation.packets(), /more than 400000 packets left the watched link/);
    simulation.free();
});
