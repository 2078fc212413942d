/** The playground: what is chosen, what it gives, and the pictures of it. */

import { Charts, bottleneck, capacity, delay, hasLimits, linesOf, looksOf, tops } from "./charts.ts";
import { Editor } from "./editor.ts";
import { LinkPicture, counted } from "./link.ts";
import type { Answer, Ask, Fault, Job, Result, Samples } from "./messages.ts";
import { type Look, onTheme, sample } from "./plot.ts";
import { OPENING, type Setup, type State, bdp, command, decode, encode, hasLaw, toml } from "./state.ts";
import presets from "virtual:presets";

const get = <T extends HTMLElement = HTMLElement>(id: string) => document.getElementById(id) as T;
const make = <K extends keyof HTMLElementTagNameMap>(tag: K, parts: Record<string, unknown> = {}, ...inside: (Node | string)[]) => {
    const made = Object.assign(document.createElement(tag), parts);
    made.append(...inside);
    return made;
};

// --- state -----------------------------------------------------------------------------

let state: State = { setups: [structuredClone(OPENING)], seeds: 1 };
/** Index of the set-up that the controls show. */
let shown = 0;
const setup = () => state.setups[shown];
/** The results of each set-up by repetition; those of the last valid one stay until others come. */
const results: Result[][] = [[], []];
/** First halves of runs that a later change has overtaken: the charts show them while a slider moves. */
const halves: (Samples | null)[] = [null, null];
let faults: (Fault | null)[] = [null, null];

// --- the worker ------------------------------------------------------------------------

let worker: Worker;
let ticket = 0;
/** Identifier of the runs under way; 0 while nothing runs. */
let busy = 0;
/** Changes that arrived meanwhile. */
let isWaiting = false;
let insists = false;
let watchdog = 0;
let watching = 0;
let since = 0;

/** True once the present worker has answered. */
let works = false;

function start() {
    works = false;
    const source = get("engine").textContent ?? "";
    worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
    worker.onmessage = ({ data }: MessageEvent<Answer>) => {
        works = true;
        receive(data);
    };
    worker.onerror = (event) => {
        // Another one would fail as this one does.
        if (works) receive({ kind: "broken", message: event.message });
        else say(`The simulator does not start in this browser: ${event.message}`, true);
    };
}
const ask = (what: Ask) => worker.postMessage(what);

/** Ends the worker with all its work, and begins another. */
function restart() {
    worker.terminate();
    busy = 0;
    start();
}

function jobs(): Job[] {
    const all = state.setups.map((each, index) => ({ index, repetition: 0, text: toml(each), insists }));
    const more = Array.from({ length: state.seeds - 1 }, (_, n) => all.map((job) => ({ ...job, repetition: n + 1 })));
    return [...all, ...more.flat()];
}

/** Runs what is chosen. While runs last, only the latest choice waits. */
function run() {
    asked = false;
    clearTimeout(watching);
    clearTimeout(saving);
    saving = window.setTimeout(save, 400);
    if (busy !== 0) {
        isWaiting = true;
        // A short run ends by itself or with its half, so that a slider draws it; a long one is stopped.
        if (performance.now() - since > 600) stop();
        return;
    }
    next();
}

/** Begins runs of what is chosen now. */
function next() {
    busy = ++ticket;
    since = performance.now();
    isWaiting = false;
    faults = [null, null];
    pending = [[], []];
    ask({ kind: "runs", id: busy, jobs: jobs() });
    const mine = busy;
    setTimeout(() => busy === mine && progress(0), 600);
}

/** Stops what runs; the worker is ended if it does not answer. */
function stop() {
    ask({ kind: "runs", id: ++ticket, jobs: [] });
    const last = ticket;
    busy = last;
    clearTimeout(watchdog);
    watchdog = window.setTimeout(() => {
        if (busy !== last) return;
        restart();
        finished();
    }, 700);
}

let pending: Result[][] = [[], []];

function receive(answer: Answer) {
    switch (answer.kind) {
        case "half":
            if (answer.id !== busy || !isWaiting || !results[answer.job.index].length) return;
            halves[answer.job.index] = answer.samples;
            if (answer.job.index === state.setups.length - 1) {
                next();
                drawSoon();
            }
            return;
        case "result": {
            if (answer.id !== busy) return;
            const { index, repetition } = answer.job;
            pending[index][repetition] = answer.result;
            if (repetition === 0) {
                results[index] = [answer.result];
                halves[index] = null;
                // Both set-ups are drawn together.
                if (index === state.setups.length - 1) {
                    // The worker computes the next figure while this one is drawn.
                    if (isWaiting) next();
                    drawSoon();
                }
            }
            return;
        }
        case "fault":
            if (answer.id === busy && answer.job.repetition === 0) {
                faults[answer.job.index] = answer.fault;
                if (answer.job.index === state.setups.length - 1) drawSoon();
            }
            return;
        case "long":
            if (answer.id !== busy || answer.job.repetition > 0) return;
            question(answer);
            return;
        case "progress":
            if (answer.id === busy && performance.now() - since > 400) progress(answer.share);
            return;
        case "done":
            if (answer.id !== busy) return;
            clearTimeout(watchdog);
            finished();
            return;
        case "packets":
            if (answer.id === ticket) picture(answer);
            return;
        case "catalogue":
            catalogue(answer);
            return;
        case "broken":
            restart();
            clearTimeout(watchdog);
            insists = false;
            get("busy").hidden = true;
            // The change that came meanwhile may be the remedy.
            if (isWaiting) run();
            else say(`The simulator stopped: ${answer.message}. Nothing you typed is lost; change the scenario and it runs again.`, true);
            return;
    }
}

function finished() {
    busy = 0;
    insists = false;
    if (isWaiting) {
        run();
        return;
    }
    get("busy").hidden = true;
    state.setups.forEach((_, index) => {
        if (pending[index].length > 1 && pending[index].every(Boolean)) results[index] = pending[index];
    });
    // Half a run is shown no longer than until the next.
    halves.fill(null);
    if (owesDetails || state.seeds > 1 || state.setups.some((_, index) => !results[index].length)) drawSoon();
    report();
    count("answered");
    // Not while a slider moves.
    watching = window.setTimeout(() => {
        state.setups.forEach((_, index) => {
            // Of the scenario that the figure shows, which may be one before an error.
            const [result] = results[index];
            if (result) ask({ kind: "packets", id: ticket, index, text: result.text, outcome: result.outcome });
        });
    }, 150);
}

// --- notices ---------------------------------------------------------------------------

function say(text: string | null, bad = false, ...actions: [string, () => void][]) {
    const notice = get("notice");
    notice.hidden = text === null;
    notice.classList.toggle("bad", bad);
    notice.replaceChildren(text ?? "");
    for (const [label, action] of actions) {
        notice.append(document.createElement("br"), make("button", { type: "button", textContent: label, onclick: action }));
    }
}

/** Errors of the set-ups, at their lines. */
function report() {
    const index = faults[shown] ? shown : faults.findIndex(Boolean);
    const fault = faults[index];
    editor?.mark(faults[shown]);
    if (fault && results[index].length) say(`${fault.message}\nThe figure shows the last scenario that ran.`, true);
    else if (fault) say(fault.message, true, ["Edit the scenario", () => edit(index)], ["Show the opening scene", () => restore(index)]);
    else if (!asked && !keeps) say(null);
    keeps = false;
}

/** Opens the editor at the scenario that does not run. */
function edit(index: number) {
    select(index);
    get<HTMLDetailsElement>("file").open = true;
    get("file").scrollIntoView();
}

/** The set-up becomes that of the opening scene. */
function restore(index: number) {
    state.setups[index] = structuredClone(OPENING);
    select(index);
    run();
}

/** True while a notice waits for an answer. */
let asked = false;
/** True if a notice stays until the next change. */
let keeps = false;

function question({ flows, packetHops, seconds }: Extract<Answer, { kind: "long" }>) {
    asked = true;
    const time = seconds < 90 ? `${Math.round(seconds)} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toPrecision(2)} h`;
    const big = packetHops.toExponential(1).replace("e+", " × 10^");
    say(`This run has ${counted(flows, "flow", "flows")} and about ${big} packet-hops, some ${time} in this page.`, false, ["Run it", () => {
        insists = true;
        say(null);
        run();
    }]);
}

function progress(share: number) {
    get("busy").hidden = false;
    get<HTMLProgressElement>("done").value = share;
    get("percent").textContent = `${Math.floor(share * 100)} %`;
}

get("cancel").onclick = () => {
    isWaiting = false;
    insists = false;
    restart();
    get("busy").hidden = true;
    say("Cancelled. The figure shows the last scenario that ran.");
};

// --- figures ---------------------------------------------------------------------------

/** Figures of one set-up. */
class Figures {
    readonly element = make("section", { className: "setup" });
    readonly #title = make("h2");
    readonly #legend = make("ul", { className: "legend" });
    readonly #caption = make("p", { className: "caption" });
    readonly #shares = make("p", { className: "caption" });
    readonly #share = make("div", { className: "share" });
    readonly #table = make("table");
    readonly #facts = make("p", { className: "facts" });
    readonly charts: Charts;
    readonly link: LinkPicture;

    constructor() {
        const charts = make("div", { className: "charts" });
        const link = make("div", { className: "link" });
        this.#share.setAttribute("role", "img");
        this.#share.setAttribute("aria-label", "Share of the goodput");
        const wrap = make("div", { className: "wrap", tabIndex: 0 }, this.#table);
        wrap.setAttribute("role", "group");
        wrap.setAttribute("aria-label", "Numbers");
        this.element.append(this.#title, this.#legend);
        this.element.append(charts);
        this.charts = new Charts(charts);
        this.element.append(this.#shares, this.#share, wrap, this.#facts);
        this.element.append(this.#caption, link);
        this.link = new LinkPicture(link);
    }

    /** Draws what stands beside the charts. */
    tell(all: Result[], title: string) {
        const [first] = all;
        const paint = looksOf(first);
        this.#title.textContent = title;
        this.#title.hidden = title === "";
        const limits = hasLimits(first) ? [make("li", { textContent: "dashed: C (1 − p), all that the route can deliver" })] : [];
        const band = all.length > 1 ? [make("li", { textContent: `lines: seed ${first.facts.seed}; bands: all ${all.length} seeds` })] : [];
        this.#legend.replaceChildren(...first.facts.groups.map((group, n) =>
            make("li", {}, sample(paint[n]), `${called(group)}${group.flows > 1 ? ` × ${group.flows}` : ""}`),
        ), ...limits, ...band);
        const goodputs = first.outcome.groups.map((_, n) => mean(all, (result) => result.outcome.groups[n].goodput_bps));
        const sum = goodputs.reduce((a, b) => a + b, 0) || 1;
        this.#share.replaceChildren(...goodputs.map((goodput, n) => {
            const part = make("span");
            part.style.width = `${(goodput / sum) * 100}%`;
            part.style.background = paint[n].color;
            return part;
        }));
        const words = first.outcome.groups.map((group, n) => `${group.name} ${((goodputs[n] / sum) * 100).toFixed(0)} %`);
        this.#shares.textContent = `Share of the goodput: ${words.join(", ")}`;
        this.#share.setAttribute("aria-label", this.#shares.textContent);
        this.#numbers(all, paint);
    }

    #numbers(all: Result[], paint: Look[]) {
        const [first] = all;
        const row = make("tr", {}, make("th", { scope: "col", textContent: "group" }), ...COLUMNS.map(([name, meaning]) => {
            const word = make("span", { title: meaning, textContent: name });
            return make("th", { scope: "col" }, word);
        }));
        const rows = first.outcome.groups.map((_, n) => {
            const cells = COLUMNS.map(([, , value]) => make("td", { textContent: value(all, n) }));
            return make("tr", {}, make("td", {}, sample(paint[n]), first.outcome.groups[n].name), ...cells);
        });
        this.#table.replaceChildren(make("thead", {}, row), make("tbody", {}, ...rows));
        const { outcome, facts } = first;
        const at = facts.groups[0].bottleneck;
        const link = outcome.links[at] as Record<string, number>;
        this.#caption.textContent = `${bottleneck(facts)} at an instant, in slow motion`;
        const print = make("code", { className: "print", textContent: outcome.fingerprint });
        this.#facts.replaceChildren(
            all.length > 1 ? `Seed ${facts.seed}, which the lines show: ` : "",
            `${bottleneck(facts)} busy ${(link.utilization * 100).toFixed(1)} %, mean queue `,
            // A queue of so many packets has no one delay if the rate changes.
            facts.links[at].rates?.length === 1 ? `${delay(first, link.mean_queue_packets).toFixed(1)} ms, ` : `${three(link.mean_queue_packets)} packets, `,
            `Jain’s index ${outcome.jain.toFixed(3)}, fingerprint `, print,
            `, ${outcome.packet_hops.toLocaleString("en")} packet-hops in ${first.took.toFixed(0)} ms here.`,
        );
    }
}

const three = (value: number) => Number(value.toPrecision(3));
const rate = (bps: number) => (bps >= 1e6 ? `${three(bps / 1e6)} Mbit/s` : `${three(bps / 1e3)} kbit/s`);
const mean = (all: Result[], value: (result: Result) => number) => all.reduce((sum, result) => sum + value(result), 0) / all.length;
/** A number of all seeds, with its range if there are several; a dash where none has it. */
const spread = (all: Result[], value: (result: Result) => unknown, text: (value: number) => string) => {
    const values = all.map(value).filter((each): each is number => typeof each === "number" && Number.isFinite(each));
    if (values.length === 0) return "–";
    const middle = text(values.reduce((a, b) => a + b, 0) / values.length);
    return values.length > 1 ? `${middle} (${text(Math.min(...values))}–${text(Math.max(...values))})` : middle;
};
/** A value above zero. */
const positive = (value: unknown) => (typeof value === "number" && value > 0 ? value : null);
/** A group with its protocol, unless its name says it, or it is composed of parts and has no name. */
const called = ({ name, protocol }: { name: string; protocol: string }) =>
    name.includes(protocol) || protocol.split("+").length > 2 ? name : `${name} (${protocol})`;

/** Name, meaning and value of each number of a group. */
const COLUMNS: [string, string, (all: Result[], group: number) => string][] = [
    ["goodput", "Unique data delivered per second after the warm-up, summed over the flows of the group; with several seeds the mean and the range",
        (all, n) => spread(all, (result) => result.outcome.groups[n].goodput_bps, rate)],
    ["of C (1 − p)", "Goodput as a share of what the route of the group delivers if it is always busy: the rate of its slowest link, times the share of packets that its wires do not lose; the mean over time if the rate changes",
        (all, n) => spread(all, (result) => {
            const most = capacity(result, n);
            return most && result.outcome.groups[n].goodput_bps / most;
        }, (share) => `${(share * 100).toFixed(0)} %`)],
    ["mean RTT", "Mean of the round-trip times that the group measured; its distance from the RTT of the link is queueing",
        (all, n) => spread(all, (result) => positive(result.outcome.groups[n].mean_rtt_s), (s) => `${(s * 1e3).toFixed(0)} ms`)],
    ["sent again", "Retransmissions as a share of the packets sent",
        (all, n) => spread(all, (result) => {
            const group = result.outcome.groups[n];
            const sent = positive(group.packets_sent);
            return sent && Number(group.retransmissions ?? 0) / sent;
        }, (share) => `${(share * 100).toFixed(1)} %`)],
    ["timeouts", "Retransmission timeouts: times at which no ACK came and the flow started again with one packet",
        (all, n) => spread(all, (result) => result.outcome.groups[n].timeouts, (count) => String(three(count)))],
];

const figures = [new Figures(), new Figures()];

/** Least time between two drawings of everything but the goodput while results follow each other, ms. */
const DETAILS = 150;
/** When they were drawn last, and whether later results await it. */
let detailed = -DETAILS;
let owesDetails = false;
let isDue = false;

/** Draws before the next frame, however many results come until then. */
function drawSoon() {
    if (isDue) return;
    isDue = true;
    const act = () => {
        cancelAnimationFrame(frame);
        clearTimeout(timer);
        isDue = false;
        draw(busy !== 0 && performance.now() - detailed < DETAILS);
    };
    const frame = requestAnimationFrame(act);
    // A page in the background has no frames.
    const timer = setTimeout(act, 200);
}

/** Counts drawings, for tests. */
function count(what: "drawn" | "charted" | "answered") {
    const { dataset } = document.documentElement;
    dataset[what] = String(Number(dataset[what] ?? 0) + 1);
}

/** Draws the results; the goodput only if it is `quick`. Set-ups that never ran have none. */
function draw(quick = false) {
    const present = state.setups.map((_, index) => index).filter((index) => results[index].length > 0);
    const place = get("figures");
    const shows = `${state.setups.length} ${present}`;
    if (place.dataset.shows !== shows) {
        place.dataset.shows = shows;
        place.classList.toggle("two", state.setups.length === 2);
        place.replaceChildren(...state.setups.map((_, index) => (present.includes(index) ? figures[index].element : none(index))));
        if (present.length) place.append(scrubber);
    }
    const samples = present.map((index): Samples[] => (halves[index] ? [halves[index]] : results[index]));
    const lines = samples.map((each) => linesOf(each, quick ? 1 : undefined));
    const each = lines.map(tops);
    const top = each[0]?.map((_, n) => Math.max(...each.map((own) => own[n])));
    present.forEach((index, n) => {
        figures[index].charts.draw(samples[n], lines[n], top);
        figures[index].link.expect(halves[index] ? null : results[index][0]);
    });
    count("charted");
    if (!quick) detailed = performance.now();
    owesDetails = quick || state.setups.some((_, index) => halves[index]);
    if (!owesDetails) words(present);
}

/** What stands in the place of a figure that there is not. */
const none = (index: number) =>
    make("p", { className: "setup", textContent: `There is no figure of ${state.setups.length === 2 ? `set-up ${"AB"[index]}` : "this scenario"} yet.` });

/** Draws what belongs to the charts. */
function words(present: number[]) {
    const two = state.setups.length === 2;
    for (const index of present) {
        figures[index].charts.tell(results[index]);
        figures[index].tell(results[index], two ? `Set-up ${"AB"[index]}` : "");
    }
    const [first] = results[shown];
    get("headline").textContent = first ? headline(results[shown]) : "This scenario has not run yet.";
    get("command").textContent = command(setup());
    // The figure may be that of a scenario before this one, which does not run or has not yet.
    const ran = first?.text === toml(setup());
    get("print").textContent = ran ? first.outcome.fingerprint : "…";
    // A text says them itself.
    if (setup().text !== null && ran) {
        get<HTMLInputElement>("duration").value = String(first.facts.duration_s);
        get<HTMLInputElement>("seed").value = first.facts.seed;
    }
    if (!editor?.isFocused && editor) editor.text = toml(setup());
    paintSides();
    if (!isMoving) moveTo(Math.min(instant, length()));
    count("drawn");
}

/** The result in one sentence. */
function headline(all: Result[]): string {
    const [{ facts, outcome }] = all;
    const rows = outcome.groups.map((_, n) => ({ name: called(facts.groups[n]), goodput: mean(all, (result) => result.outcome.groups[n].goodput_bps) }));
    rows.sort((a, b) => b.goodput - a.goodput);
    const parts = rows.slice(0, 3).map(({ name, goodput }, n) => `${name} ${n === 0 ? "carries " : ""}${rate(goodput)}`);
    const others = rows.length > 3 ? `, ${counted(rows.length - 3, "more group", "more groups")} less` : "";
    const seeds = all.length > 1 ? ` (means of ${all.length} seeds)` : "";
    return `${where(facts)}, ${parts.join(", ")}${others}${seeds}.`;
}

/** The bottleneck, if all groups have the same. */
function where({ groups, links }: Samples["facts"]): string {
    const used = new Set(groups.map((group) => group.bottleneck)).size;
    if (used > 1) return `Over ${used} bottlenecks`;
    const link = links[groups[0].bottleneck];
    const rates = link.rates?.map(([, bps]) => bps) ?? [link.rate_bps];
    const [least, most] = [Math.min(...rates), Math.max(...rates)];
    const percent = link.loss * 100;
    const losses = percent > 0 ? ` that loses ${Number(percent.toPrecision(2))} % of packets` : "";
    return `On a link of ${least < most ? `${rate(least)} to ` : ""}${rate(most)}${losses}`;
}

// --- the instant -----------------------------------------------------------------------

/** Instant that the pictures of the link show, seconds. */
let instant = 12;
/** Virtual seconds per second of the animation. */
const SLOW = 0.02;
let isMoving = !matchMedia("(prefers-reduced-motion: reduce)").matches;

const range = make("input", { type: "range", min: "0", step: "any", id: "instant" });
const play = make("button", { type: "button", id: "play" });
const scrubber = make("div", { className: "scrub" }, play, make("label", {}, "Instant", range));
const length = () => results[0][0]?.facts.duration_s ?? OPENING.duration;

function moveTo(time: number) {
    instant = time;
    range.max = String(length());
    range.value = String(time);
    range.setAttribute("aria-valuetext", `${time.toFixed(2)} seconds`);
    state.setups.forEach((_, index) => figures[index].link.draw(time));
}

function picture({ index, fingerprint, packets }: Extract<Answer, { kind: "packets" }>) {
    figures[index].link.show(fingerprint, packets);
    moveTo(instant);
    figures[index].charts.mark(instant);
}

let before = 0;
function frame(now: number) {
    const passed = Math.min(0.1, (now - before) / 1e3);
    before = now;
    if (isMoving && busy === 0 && figures.some(({ link }) => link.isReady)) moveTo(instant + passed * SLOW < length() ? instant + passed * SLOW : 0);
    if (isMoving) requestAnimationFrame(frame);
}

function setMoving(moves: boolean) {
    isMoving = moves;
    play.textContent = moves ? "Pause" : "Play";
    if (moves) requestAnimationFrame((now) => {
        before = now;
        frame(now);
    });
}
play.onclick = () => setMoving(!isMoving);
range.oninput = () => {
    setMoving(false);
    moveTo(Number(range.value));
    state.setups.forEach((_, index) => figures[index].charts.mark(instant));
};

// --- controls --------------------------------------------------------------------------

interface Slider {
    key: "rate" | "rtt" | "queue" | "loss" | "burst" | "jitter";
    label: string;
    /** The value at a place of the slider, 0 to 1000, and back. */
    value: (place: number) => number;
    place: (value: number) => number;
    text: (value: number, setup: Setup) => string;
}

const round = (value: number) => Number(value.toPrecision(2));
const logarithmic = (least: number, most: number) => ({
    value: (place: number) => round(least * (most / least) ** (place / 1000)),
    place: (value: number) => (1000 * Math.log(value / least)) / Math.log(most / least),
});
/** As [`logarithmic`], with 0 at the left end. */
const fromZero = (least: number, most: number) => {
    const scale = logarithmic(least, most);
    return {
        value: (place: number) => (place < 10 ? 0 : scale.value(place)),
        place: (value: number) => (value <= 0 ? 0 : Math.max(10, scale.place(value))),
    };
};

const SLIDERS: Slider[] = [
    { key: "loss", label: "Loss", ...fromZero(0.01, 30), text: (value) => `${value} %` },
    { key: "burst", label: "Packets in a burst of losses", value: (at) => Math.round(1 + (at / 1000) * 19), place: (value) => ((value - 1) / 19) * 1000, text: String },
    { key: "rate", label: "Rate", ...logarithmic(1, 200), text: (value) => `${value} Mbit/s` },
    { key: "rtt", label: "Round-trip time", ...logarithmic(4, 600), text: (value) => `${value} ms` },
    { key: "queue", label: "Queue", ...logarithmic(0.05, 8), text: (value, of) => `${value} BDP, ${Math.max(2, Math.round(value * bdp(of)))} packets` },
    { key: "jitter", label: "Jitter", ...fromZero(0.5, 100), text: (value) => `${value} ms` },
];

const inputs = new Map<string, { input: HTMLInputElement; output: HTMLOutputElement }>();
for (const slider of SLIDERS) {
    const input = make("input", { type: "range", min: "0", max: "1000", step: "10", id: `slider-${slider.key}` });
    const output = make("output");
    output.htmlFor.add(input.id);
    input.oninput = () => {
        setup()[slider.key] = slider.value(Number(input.value));
        show(false);
        run();
    };
    get("sliders").append(make("div", { className: "slider" }, make("label", { htmlFor: input.id, textContent: slider.label }), output, input));
    inputs.set(slider.key, { input, output });
}

let names: string[] = ["cubic", "upwind", "newreno", "bbr"];

/** Fills a list with words, of which one is chosen. */
function fill(select: HTMLSelectElement, words: string[], chosen: string) {
    const all = words.includes(chosen) ? words : [chosen, ...words];
    if (select.length !== all.length) select.replaceChildren(...all.map((word) => make("option", { value: word, textContent: word })));
    select.value = chosen;
}

let aqms = ["droptail"];
let routers = ["auto"];
const OWN = [0, 0.1, 0.5, 1, 2, 5, 10, 20];

const sideInputs = OPENING.sides.map((_, n) => {
    const swatch = make("i");
    const protocol = make("select", { id: `protocol-${n}` });
    const count = make("input", { type: "number", min: "0", max: "100", id: `count-${n}` });
    const loss = make("select", { id: `loss-${n}` });
    protocol.onchange = () => change(n, { protocol: protocol.value });
    count.onchange = () => change(n, { count: Math.min(100, Math.max(0, Math.round(Number(count.value)) || 0)) });
    loss.onchange = () => change(n, { loss: Number(loss.value) });
    const labelled = (text: string, input: HTMLElement) => make("label", {}, text, input);
    const row = make("div", { className: "side" }, swatch, labelled("protocol", protocol), labelled("flows", count), labelled("own losses", loss));
    get("sides").append(row);
    return { swatch, protocol, count, loss };
});

function change(n: number, what: Partial<Setup["sides"][number]>) {
    Object.assign(setup().sides[n], what);
    // Somebody has to send.
    if (setup().sides.every((side) => side.count === 0)) setup().sides[n].count = 1;
    show();
    run();
}

function paintSides() {
    const [first] = results[shown];
    if (!first || setup().text !== null) return;
    const paint = looksOf(first);
    let group = 0;
    setup().sides.forEach((side, n) => {
        sideInputs[n].swatch.style.background = (side.count > 0 && paint[group++]?.color) || "transparent";
    });
}

/** The controls show the set-up; `all` is false while a slider moves, whose place is right. */
function show(all = true) {
    const own = setup();
    for (const slider of SLIDERS) {
        const { input, output } = inputs.get(slider.key)!;
        if (all) input.value = String(slider.place(own[slider.key]));
        output.textContent = slider.text(own[slider.key], own);
        input.setAttribute("aria-valuetext", output.textContent);
    }
    if (!all) return;
    own.sides.forEach((side, n) => {
        const { protocol, count, loss } = sideInputs[n];
        fill(protocol, names, side.protocol);
        count.value = String(side.count);
        const losses = OWN.includes(side.loss) ? OWN : [...OWN, side.loss];
        loss.replaceChildren(...losses.map((percent) => make("option", { value: String(percent), textContent: percent ? `${percent} %` : "none" })));
        loss.value = String(side.loss);
    });
    fill(get<HTMLSelectElement>("aqm"), aqms, own.aqm);
    fill(get<HTMLSelectElement>("router"), routers, own.router);
    get<HTMLInputElement>("on_ack").value = own.law.on_ack;
    get<HTMLInputElement>("on_loss").value = own.law.on_loss;
    if (hasLaw(own)) get<HTMLDetailsElement>("law").open = true;
    const isText = own.text !== null;
    get<HTMLInputElement>("seed").value = isText ? "" : String(own.seed);
    get<HTMLInputElement>("duration").value = isText ? "" : String(own.duration);
    for (const id of ["seed", "duration"]) get<HTMLInputElement>(id).disabled = isText;
    get<HTMLInputElement>("seeds").value = String(state.seeds);
    get("scene").hidden = isText;
    get("textual").hidden = !isText;
    const preset = presets.findIndex(({ text }) => text === own.text);
    get<HTMLSelectElement>("preset").value = own.text === null ? "" : String(preset);
    tabs();
    if (editor) editor.text = toml(own);
}

function tabs() {
    const place = get("tabs");
    const two = state.setups.length === 2;
    const tab = (index: number) => {
        const made = make("button", { type: "button", textContent: `Set-up ${"AB"[index]}`, onclick: () => select(index) });
        made.setAttribute("aria-pressed", String(index === shown));
        return made;
    };
    const compare = make("button", { type: "button", id: "compare", textContent: two ? "One set-up" : "Compare two set-ups" });
    compare.onclick = () => {
        if (two) {
            state.setups = [setup()];
            results[0] = results[shown];
            results[1] = [];
            halves.fill(null);
            select(0);
        } else {
            state.setups.push(structuredClone(setup()));
            results[1] = results[0];
            halves.fill(null);
            select(1);
        }
        run();
    };
    place.replaceChildren(...(two ? [tab(0), tab(1)] : []), compare);
}

function select(index: number) {
    shown = index;
    show();
    draw();
    report();
}

const bind = (id: string, event: "input" | "change", then: (value: string) => void) => {
    get<HTMLInputElement | HTMLSelectElement>(id).addEventListener(event, (what) => {
        then((what.target as HTMLInputElement).value);
        run();
    });
};
bind("aqm", "change", (value) => (setup().aqm = value));
bind("router", "change", (value) => (setup().router = value));
bind("on_ack", "input", (value) => (setup().law.on_ack = value));
bind("on_loss", "input", (value) => (setup().law.on_loss = value));
bind("seed", "input", (value) => (setup().seed = Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, Math.round(Number(value)) || 0))));
bind("duration", "input", (value) => (setup().duration = Math.min(600, Math.max(1, Number(value) || OPENING.duration))));
bind("seeds", "input", (value) => (state.seeds = Math.min(30, Math.max(1, Math.round(Number(value)) || 1))));
get("controls").onsubmit = (event) => event.preventDefault();

// --- presets, editor, files ------------------------------------------------------------

{
    const list = get<HTMLSelectElement>("preset");
    list.append(make("option", { value: "", textContent: "The sliders" }));
    for (const family of new Set(presets.map((preset) => preset.family))) {
        const group = make("optgroup", { label: family });
        presets.forEach((preset, index) => {
            if (preset.family === family) group.append(make("option", { value: String(index), textContent: preset.title }));
        });
        list.append(group);
    }
    list.append(make("option", { value: "-1", textContent: "Own text", hidden: true }));
    list.onchange = () => {
        setup().text = list.value === "" ? null : presets[Number(list.value)].text;
        show();
        run();
    };
}
get("back").onclick = () => {
    setup().text = null;
    show();
    run();
};

let editor: Editor | null = null;
/** The editor is made when it is first opened. */
get("file").addEventListener("toggle", () => {
    if (editor || !get<HTMLDetailsElement>("file").open) return;
    editor = new Editor(get("editor"), (text) => {
        const isNew = setup().text === null;
        setup().text = text;
        if (isNew) {
            for (const id of ["seed", "duration"]) get<HTMLInputElement>(id).disabled = true;
            get("scene").hidden = true;
            get("textual").hidden = false;
        }
        get<HTMLSelectElement>("preset").value = String(presets.findIndex((preset) => preset.text === text));
        run();
    });
    editor.text = toml(setup());
    editor.know(schema, names);
    report();
});

async function copy(text: string, button: HTMLElement) {
    const label = button.textContent;
    try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
    } catch {
        button.textContent = "The browser refuses; copy by hand";
    }
    setTimeout(() => (button.textContent = label), 1500);
}
get("copy").onclick = () => void copy(command(setup()), get("copy"));
get("share").onclick = () => void save().then(() => copy(location.href, get("share")));
get("save").onclick = () => {
    const url = URL.createObjectURL(new Blob([toml(setup())], { type: "application/toml" }));
    make("a", { href: url, download: "scenario.toml" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
};

// --- links -----------------------------------------------------------------------------

let saving = 0;
let saved = "";

async function save() {
    saved = await encode(state);
    history.replaceState(null, "", `#${saved}`);
}

async function load(fragment = location.hash.slice(1)) {
    if (fragment === "" || fragment === saved) return false;
    try {
        state = await decode(fragment);
        shown = 0;
        return true;
    } catch (error) {
        say(`The link cannot be read: ${(error as Error).message}. This is the opening scene.`, true);
        keeps = true;
        return false;
    }
}
addEventListener("hashchange", (event) => {
    // Not the current address, in which a state before this may have been saved meanwhile.
    clearTimeout(saving);
    void load(new URL(event.newURL).hash.slice(1)).then((isNew) => {
        if (!isNew) return;
        results[1] = [];
        show();
        run();
    });
});

// --- the catalogue ---------------------------------------------------------------------

let schema: Record<string, unknown> = {};

function catalogue(all: Extract<Answer, { kind: "catalogue" }>) {
    schema = all.schema;
    names = all.protocols.map((protocol) => protocol.name);
    const of = (axis: string) => all.parts.filter((part) => part.axis === axis).map((part) => part.name);
    aqms = of("aqm");
    routers = ["auto", ...of("router")];
    get("foot").textContent = `Windward ${all.version}: ${names.length} protocols, ${aqms.length} queues. Everything runs in this page; nothing is sent.`;
    editor?.know(schema, names);
    // Lists that are open would close.
    if (!(document.activeElement instanceof HTMLSelectElement)) show();
}

onTheme(() => draw());
// A part of another page: the charts and two sliders.
document.body.classList.toggle("figure", location.search === "?figure");

if (typeof WebAssembly !== "object" || typeof Worker !== "function" || typeof DecompressionStream !== "function") {
    say("This browser lacks WebAssembly, workers or DecompressionStream, which the simulator needs. Versions since 2023 have them.", true);
} else {
    start();
    void load().then(() => {
        show();
        run();
        ask({ kind: "catalogue" });
        setMoving(isMoving);
    });
}
