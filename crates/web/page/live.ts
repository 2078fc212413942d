/** Live charts of a command on a real clock: what its server-sent events say. */

import type uPlot from "uplot";
import { DARK, LIGHT, type Line, type Lines, type Look, MARKERS, isDark, onTheme, plot, sample, shape } from "./plot.ts";

interface About {
    command: string;
    subject: string;
    capacity_bps: number | null;
    /** Name of the rates. */
    rates: string;
    /** Names of the directions of `rate_bps` and `back_bps`. */
    ways: [string, string];
}

interface Flow {
    name: string;
    rate_bps: number;
    back_bps?: number;
    cwnd_packets?: number;
    retransmissions?: number;
    missing?: number;
    queueing_delay_s?: number;
    rtt_s: number;
}

interface Link {
    name: string;
    rate_bps: number;
    queue_packets: number;
    queueing_delay_s: number;
    dropped: number;
    corrupted: number;
    marked: number;
}

interface Moment {
    time_s: number;
    flows: Flow[];
    links: Link[];
}

/** Longest time that is kept, seconds, as the longest choice of the list. */
const KEPT = 600;

const get = <T extends HTMLElement = HTMLElement>(id: string) => document.getElementById(id) as T;
const cell = (tag: "td" | "th", text: string) => Object.assign(document.createElement(tag), { textContent: text });

let about: About = { command: "", subject: "", capacity_bps: null, rates: "Throughput", ways: ["forward", "back"] };
let moments: Moment[] = [];
let isPaused = false;
/** Number of each name, which has a colour. */
const names = new Map<string, number>();
let named = 0;

function look(name: string): Look {
    if (!names.has(name)) names.set(name, named++);
    const number = names.get(name)!;
    return { color: (isDark() ? DARK : LIGHT)[number % LIGHT.length], marker: number % MARKERS };
}

// --- lines -----------------------------------------------------------------------------

/** Names of the lines that are drawn. */
let used = new Set<string>();

/**
 * A value of each flow or link over time; null where it was absent. With `busy`, those whose value is always zero are
 * left out, but for the first one.
 */
function lines<T extends { name: string }>(
    shown: Moment[],
    all: (moment: Moment) => T[],
    value: (one: T, span: number) => number | undefined,
    { label = (name: string) => name, dash, busy, first = true }: { label?: (name: string) => string; dash?: number[]; busy?: boolean; first?: boolean } = {},
): Line[] {
    const found = new Map<string, Lines>();
    shown.forEach((moment, at) => {
        const span = moment.time_s - (shown[at - 1]?.time_s ?? moment.time_s - 0.1);
        for (const one of all(moment)) {
            const now = value(one, Math.max(span, 1e-3));
            if (now === undefined) continue;
            if (!found.has(one.name)) found.set(one.name, new Array<null>(shown.length).fill(null));
            found.get(one.name)![at] = now;
        }
    });
    const every = [...found];
    const some = busy ? every.filter(([, values]) => values.some((each) => each)) : every;
    const drawn = some.length || !first ? some : every.slice(0, 1);
    return drawn.map(([name, values]) => {
        used.add(name);
        return { label: label(name), ...look(name), values, dash };
    });
}

const flows = (moment: Moment) => moment.flows;
const links = (moment: Moment) => moment.links;
const DASH = [5, 4];
const DOTS = [2, 3];

/** True if the rate is that of a download: what the user's program sends is the solid line. */
const isDownload = () => about.ways[0] === "download";
const hasBack = (shown: Moment[]) => shown.some((moment) => moment.flows.some((flow) => flow.back_bps !== undefined));

interface Chart {
    id: string;
    title: string | (() => string);
    height: number;
    lines: (shown: Moment[]) => Line[];
}

const CHARTS: Chart[] = [
    {
        id: "goodput",
        title: () => `${about.rates}, Mbit/s`,
        height: 230,
        lines: (shown) => {
            const [forward, back] = about.ways;
            const [solid, dotted] = isDownload() ? [DOTS, undefined] : [undefined, DOTS];
            const isOneWay = (flow: Flow) => flow.back_bps === undefined;
            const own = [
                ...lines(shown, flows, (flow) => (isOneWay(flow) ? flow.rate_bps / 1e6 : undefined)),
                ...lines(shown, flows, (flow) => (isOneWay(flow) ? undefined : flow.rate_bps / 1e6), { label: (name) => `${name} ${forward}`, dash: solid }),
                ...lines(shown, flows, (flow) => flow.back_bps && flow.back_bps / 1e6, { label: (name) => `${name} ${back}`, dash: dotted }),
            ];
            const all = own.length ? own : lines(shown, links, (link) => link.rate_bps / 1e6);
            const capacity = about.capacity_bps;
            if (capacity === null) return all;
            const line = { label: "C (1 − p)", color: isDark() ? "#8b9099" : "#70757d", values: shown.map(() => capacity / 1e6), dash: DASH, width: 1 };
            return [...all, line];
        },
    },
    { id: "cwnd", title: "Congestion window, packets", height: 150, lines: (shown) => lines(shown, flows, (flow) => flow.cwnd_packets) },
    {
        id: "delay",
        title: "Queueing delay, ms",
        height: 130,
        lines: (shown) => [
            ...lines(shown, links, (link) => link.queueing_delay_s * 1e3, { busy: true }),
            ...lines(shown, flows, (flow) => flow.queueing_delay_s && flow.queueing_delay_s * 1e3),
        ],
    },
    { id: "rtt", title: "Round-trip time, ms", height: 130, lines: (shown) => lines(shown, flows, (flow) => (flow.rtt_s > 0 ? flow.rtt_s * 1e3 : undefined)) },
    {
        id: "lost",
        title: "Packets dropped, missing, destroyed by the wire (dashed), marked (dotted) and sent again, per second",
        height: 130,
        lines: (shown) => [
            ...lines(shown, links, (link, span) => link.dropped / span, { busy: true }),
            ...lines(shown, links, (link, span) => link.corrupted / span, { label: (name) => `${name} destroyed`, dash: DASH, busy: true, first: false }),
            ...lines(shown, links, (link, span) => link.marked / span, { label: (name) => `${name} marked`, dash: DOTS, busy: true, first: false }),
            ...lines(shown, flows, (flow, span) => flow.retransmissions && flow.retransmissions / span, { label: (name) => `${name} sent again` }),
            ...lines(shown, flows, (flow, span) => flow.missing && flow.missing / span, { label: (name) => `${name} missing` }),
        ],
    },
];

// --- charts ----------------------------------------------------------------------------

/** A chart in its place. It is hidden while it has no line. */
class Place {
    readonly #chart: Chart;
    readonly #figure = document.createElement("figure");
    readonly #caption = document.createElement("figcaption");
    readonly #place = document.createElement("div");
    #plot: uPlot | null = null;
    #shape = "";
    #top = 1;
    #times: [number, number] = [0, 1];

    constructor(chart: Chart) {
        this.#chart = chart;
        this.#figure.className = `chart ${chart.id}`;
        this.#figure.hidden = true;
        this.#place.setAttribute("role", "img");
        this.#figure.append(this.#caption, this.#place);
        get("charts").append(this.#figure);
        new ResizeObserver(() => {
            const width = Math.max(200, this.#place.clientWidth);
            if (this.#plot && width !== this.#plot.width) this.#plot.setSize({ width, height: chart.height });
        }).observe(this.#place);
    }

    draw(shown: Moment[], times: [number, number]) {
        const all = this.#chart.lines(shown);
        this.#figure.hidden = all.length === 0;
        if (all.length === 0) return;
        const now = shape(all);
        if (now !== this.#shape) {
            this.#plot?.destroy();
            this.#plot = plot(this.#place, all, { height: this.#chart.height, top: () => this.#top, times: () => this.#times });
            this.#shape = now;
        }
        const most = all.reduce((top, line) => line.values.reduce<number>((top, value) => Math.max(top, value ?? 0), top), 0);
        // The axis grows at once and shrinks in steps, so that lines do not jump.
        if (most > this.#top || most < this.#top / 2) this.#top = (most || 1) * 1.15;
        this.#times = times;
        this.#plot!.setData([shown.map((moment) => moment.time_s), ...all.map((line) => line.values)] as uPlot.AlignedData);
        const title = typeof this.#chart.title === "string" ? this.#chart.title : this.#chart.title();
        this.#caption.textContent = title;
        const last = all.map((line) => `${line.label} ${Number((line.values.at(-1) ?? 0).toPrecision(3))}`);
        this.#place.setAttribute("aria-label", `${title}. Now: ${last.join(", ")}.`);
    }
}

const places = CHARTS.map((chart) => new Place(chart));

// --- numbers ---------------------------------------------------------------------------

const three = (value: number) => String(Number(value.toPrecision(3)));
const rate = (bps: number) => (bps >= 1e6 ? `${three(bps / 1e6)} Mbit/s` : `${three(bps / 1e3)} kbit/s`);
const ms = (s: number) => `${three(s * 1e3)} ms`;

function table(id: string, head: string[], rows: string[][]) {
    const row = (tag: "td" | "th", texts: string[]) => {
        const made = document.createElement("tr");
        made.append(...texts.map((text) => cell(tag, text)));
        return made;
    };
    get(id).parentElement!.hidden = rows.length === 0;
    get(id).replaceChildren(row("th", head), ...rows.map((texts) => row("td", texts)));
}

function numbers(shown: Moment[]) {
    const last = shown[shown.length - 1];
    const span = last.time_s - shown[0].time_s;
    const sum = (name: string, of: (link: Link) => number) =>
        shown.reduce((sum, moment) => sum + moment.links.reduce((sum, link) => sum + (link.name === name ? of(link) : 0), 0), 0);
    const words = `in ${Math.round(span)} s`;
    const isBack = hasBack([last]);
    table("flows", ["flow", ...(isBack ? about.ways : [about.rates.toLowerCase()]), "cwnd", "RTT"], last.flows.map((flow) => [
        flow.name,
        rate(flow.rate_bps),
        ...(isBack ? [flow.back_bps === undefined ? "–" : rate(flow.back_bps)] : []),
        flow.cwnd_packets === undefined ? "–" : three(flow.cwnd_packets),
        flow.rtt_s > 0 ? ms(flow.rtt_s) : "–",
    ]));
    table("links", ["link", "rate", "queue", "queueing delay", `dropped ${words}`, `destroyed ${words}`, `marked ${words}`], last.links.map((link) => [
        link.name,
        rate(link.rate_bps),
        `${link.queue_packets} packets`,
        ms(link.queueing_delay_s),
        String(sum(link.name, (each) => each.dropped)),
        String(sum(link.name, (each) => each.corrupted)),
        String(sum(link.name, (each) => each.marked)),
    ]));
}

/** Names of the kinds of lines of the first chart, with the style of each. */
function kinds(shown: Moment[]): [string, string][] {
    const ways: [string, string][] = hasBack(shown) ? [[about.ways[isDownload() ? 1 : 0], "solid"], [about.ways[isDownload() ? 0 : 1], "dotted"]] : [];
    return about.capacity_bps === null ? ways : [...ways, [`C (1 − p) ${rate(about.capacity_bps)}`, "dashed"]];
}

function legend(shown: Moment[]) {
    const lines = kinds(shown);
    const text = [...used, ...lines.flat()].join("\n") + isDark();
    if (get("legend").dataset.names === text) return;
    get("legend").dataset.names = text;
    const entry = (name: string, swatch: Element) => {
        const item = document.createElement("li");
        item.append(swatch, name);
        return item;
    };
    const line = (kind: string) => {
        const swatch = document.createElement("i");
        Object.assign(swatch.style, { height: "0", borderTop: `2px ${kind} currentcolor`, borderRadius: "0" });
        return swatch;
    };
    get("legend").replaceChildren(
        ...[...used].map((name) => entry(name, sample(look(name)))),
        ...lines.map(([name, kind]) => entry(name, line(kind))),
    );
}

let isDue = false;
/** Draws before the next frame, however many events arrive until then. */
function draw() {
    if (isDue || isPaused) return;
    isDue = true;
    requestAnimationFrame(() => {
        isDue = false;
        const last = moments.at(-1);
        if (!last) return;
        const span = Number(get<HTMLSelectElement>("span").value);
        const shown = moments.filter((moment) => moment.time_s >= last.time_s - span);
        const times: [number, number] = [Math.max(shown[0].time_s, last.time_s - span), Math.max(last.time_s, shown[0].time_s + 1)];
        used = new Set();
        for (const place of places) place.draw(shown, times);
        legend(shown);
        numbers(shown);
        const isIdle = last.flows.length + last.links.length === 0;
        get("time").textContent = `${last.time_s.toFixed(1)} s${isIdle ? "; nothing is connected" : ""}`;
        document.documentElement.dataset.drawn = String(Number(document.documentElement.dataset.drawn ?? 0) + 1);
    });
}

/** Forgets what was before. The names of a server's connections would otherwise grow without bound. */
function forget(before: number) {
    moments = moments.filter((each) => each.time_s >= before);
    const left = new Set(moments.flatMap((each) => [...each.flows, ...each.links].map(({ name }) => name)));
    for (const name of names.keys()) if (!left.has(name)) names.delete(name);
}

// --- events ----------------------------------------------------------------------------

const tell = (text: string) => (get("state").textContent = text);

const source = new EventSource("events");
source.onopen = () => tell("running,");
source.onerror = () => tell("the connection is lost, trying again;");
source.addEventListener("about", (event) => {
    about = JSON.parse(event.data) as About;
    get("title").textContent = `${about.command}: ${about.subject}`;
    document.title = `${about.subject} – Windward live`;
});
source.addEventListener("end", () => {
    source.close();
    tell("the run has ended after");
    draw();
});
source.onmessage = (event) => {
    const moment = JSON.parse(event.data) as Moment;
    const last = moments.at(-1);
    // Another run at the same address.
    if (last && moment.time_s <= last.time_s) moments = [];
    moments.push(moment);
    // In steps, so that the list is not copied at each event.
    if (moment.time_s - moments[0].time_s > KEPT * 1.2) forget(moment.time_s - KEPT);
    draw();
};

get("pause").onclick = () => {
    isPaused = !isPaused;
    get("pause").textContent = isPaused ? "Go on" : "Pause";
    draw();
};
get("span").onchange = draw;
onTheme(draw);
