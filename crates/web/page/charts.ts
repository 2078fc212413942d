/** The charts of a set-up: goodput, windows and queueing delay over time. */

import type uPlot from "uplot";
import type { Samples } from "./messages.ts";
import { type Line, type Lines, type Look, isDark, ink, looks, plot, shape } from "./plot.ts";

type Steps = [number, number][];

/** The look of each group. */
export const looksOf = (result: Samples): Look[] => looks(result.facts.groups.map((group) => group.protocol));

/** The value of steps at that instant. */
const at = (steps: Steps, time: number) => (steps.findLast(([from]) => from <= time) ?? steps[0])[1];

/** Mean of C (1 - p) on the route of a group while the run is measured, bits per second; `null` if it is not known. */
export function capacity(result: Samples, group: number): number | null {
    const { facts } = result;
    const steps = facts.groups[group].capacity;
    if (!steps) return null;
    const [begin, end] = [facts.warmup_s, facts.duration_s];
    const bits = steps.reduce((sum, [from, bps], n) => {
        const lasts = Math.min(end, steps[n + 1]?.[0] ?? end) - Math.max(begin, from);
        return sum + bps * Math.max(0, lasts);
    }, 0);
    return bits / (end - begin);
}

/** The bottleneck whose queue is drawn, that of the first group; with its name if there are others. */
export function bottleneck({ groups, links }: Samples["facts"]): string {
    const at = groups[0].bottleneck;
    return groups.some((group) => group.bottleneck !== at) ? `Bottleneck ${links[at].name}` : "Bottleneck";
}

/** Queueing delay at the bottleneck of a number of packets at that instant, or at its mean rate, ms. */
export function delay(result: Samples, packets: number, time?: number): number {
    const group = result.facts.groups[0];
    const { rate_bps, rates } = result.facts.links[group.bottleneck];
    return (packets * group.packet_size * 8e3) / (rates && time !== undefined ? at(rates, time) : rate_bps);
}

const QUANTITIES = [
    { id: "goodput", title: "Goodput, Mbit/s", height: 230 },
    { id: "cwnd", title: "Congestion window, packets", height: 150 },
    { id: "delay", title: "Queueing delay, ms", height: 130 },
] as const;
type Quantity = (typeof QUANTITIES)[number]["id"];

const known = (value: number) => (Number.isFinite(value) ? value : null);

function series(quantity: Quantity, all: Samples[]): Line[] {
    const [first] = all;
    const paint = looksOf(first);
    const values = (result: Samples, group: number): Lines => {
        const own = result.groups[group];
        return quantity === "goodput" ? smooth(own.goodput) : Array.from(own.cwnd, known);
    };
    if (quantity === "delay") {
        const of = (result: Samples) => Array.from(result.queue, (packets, n) => delay(result, packets, result.times[n]));
        return [{ label: "queue", color: isDark() ? "#b8bcc4" : "#4a4f57", values: of(first), ...band(all.map(of)) }];
    }
    const groups = first.facts.groups.flatMap((group, index) => {
        if (quantity === "cwnd" && !group.is_connection) return [];
        const runs = all.map((result) => values(result, index));
        return [{ label: group.name, ...paint[index], values: runs[0], ...band(runs) }];
    });
    return quantity === "cwnd" ? groups : [...groups, ...limits(first, paint)];
}

/** Most lines of C (1 - p) in a chart. */
const MOST_LIMITS = 3;

/** The lists of each scenario, which every drawing needs. */
const routesOf = new WeakMap<Samples["facts"], Map<string, number[]>>();

/** Groups whose routes deliver the same at most: their numbers by what it is. */
function routes({ facts }: Samples): Map<string, number[]> {
    let found = routesOf.get(facts);
    if (found) return found;
    found = new Map();
    for (const [n, { capacity }] of facts.groups.entries()) {
        if (!capacity) continue;
        const key = JSON.stringify(capacity);
        found.set(key, [...(found.get(key) ?? []), n]);
    }
    routesOf.set(facts, found);
    return found;
}

/** True if C (1 - p) is drawn. */
export const hasLimits = (result: Samples) => routes(result).size > 0 && routes(result).size <= MOST_LIMITS;

/** C (1 - p) over time, in grey, or if routes differ in the colour of the first group of each. */
function limits(result: Samples, paint: Look[]): Line[] {
    if (!hasLimits(result)) return [];
    const all = [...routes(result)];
    const isOne = all.length === 1 && all[0][1].length === result.facts.groups.length;
    return all.map(([key, [group]]) => {
        const steps = JSON.parse(key) as Steps;
        const color = isOne ? (isDark() ? "#8b9099" : "#70757d") : paint[group].color;
        const label = isOne ? "C (1 − p)" : `C (1 − p) of ${result.facts.groups[group].name}`;
        return { label, color, values: Array.from(result.times, (time) => at(steps, time) / 1e6), dash: [5, 4], width: 1 };
    });
}

/** Samples of a mean of the goodput: shorter ones show the bursts of single windows. */
const SMOOTH = 5;

/** Moving means, Mbit/s. */
function smooth(goodput: Float64Array): Lines {
    const half = SMOOTH >> 1;
    return Array.from(goodput, (_, at) => {
        const part = goodput.subarray(Math.max(0, at - half), at + half + 1);
        return part.reduce((sum, bps) => sum + bps, 0) / part.length / 1e6;
    });
}

/** Smallest and largest value at each sample. */
function band(runs: Lines[]): { low?: Lines; high?: Lines } {
    if (runs.length < 2) return {};
    const ends = (pick: (...values: number[]) => number) => runs[0].map((_, n) => pick(...runs.map((run) => run[n] ?? 0)));
    return { low: ends(Math.min), high: ends(Math.max) };
}

/** The three charts of a set-up. */
export class Charts {
    readonly #places: HTMLElement[];
    #plots: uPlot[] = [];
    readonly #captions: HTMLElement[] = [];
    readonly #shapes: string[] = [];
    #cursor = 0;

    constructor(host: HTMLElement) {
        this.#places = QUANTITIES.map(({ title, id }) => {
            const figure = document.createElement("figure");
            figure.className = `chart ${id}`;
            const caption = document.createElement("figcaption");
            caption.textContent = title;
            const place = document.createElement("div");
            place.setAttribute("role", "img");
            place.setAttribute("aria-label", title);
            this.#captions.push(caption);
            figure.append(caption, place);
            host.append(figure);
            return place;
        });
        new ResizeObserver(() => this.#fit()).observe(this.#places[0]);
    }

    #fit() {
        this.#plots.forEach((plot, n) => {
            const width = Math.max(200, this.#places[n].clientWidth);
            if (width !== plot.width) plot.setSize({ width, height: QUANTITIES[n].height });
        });
    }

    /**
     * Draws the lines of a run and its repetitions, of the first charts as many as are given. `tops` are the tops of the
     * axes, so that two set-ups compare.
     */
    draw(all: Samples[], drawn: Line[][], tops: number[]) {
        const times = all[0].times;
        this.#duration = all[0].facts.duration_s;
        drawn.forEach((lines, n) => {
            const now = shape(lines);
            if (now !== this.#shapes[n]) {
                this.#plots[n]?.destroy();
                this.#plots[n] = this.#make(n, lines);
                this.#shapes[n] = now;
            }
            const data = [times, ...lines.flatMap((line) => [line.values, ...(line.low ? [line.low, line.high!] : [])])];
            this.#tops[n] = tops[n];
            this.#plots[n].setData(data as uPlot.AlignedData);
        });
    }

    /** Says in words what all charts show. */
    tell(all: Samples[]) {
        const times = all[0].times;
        const over = SMOOTH * (times[1] - times[0] || 0);
        this.#captions[0].textContent = `${QUANTITIES[0].title}, means over ${Number(over.toPrecision(2))} s`;
        const [, name] = bottleneck(all[0].facts).split(" ");
        this.#captions[2].textContent = name ? `Queueing delay at ${name}, ms` : QUANTITIES[2].title;
        linesOf(all).forEach((lines, n) => {
            const means = lines.map((line) => `${line.label} ${mean(line.values).toPrecision(3)}`);
            this.#places[n].setAttribute("aria-label", `${QUANTITIES[n].title}. Means: ${means.join(", ")}.`);
        });
    }

    #tops: number[] = [1, 1, 1];
    #duration = 1;

    /** Marks an instant, seconds. */
    mark(time: number) {
        this.#cursor = time;
        for (const plot of this.#plots) plot.redraw(false, false);
    }

    #make(n: number, lines: Line[]): uPlot {
        const mark = (plot: uPlot) => {
            if (this.#cursor <= 0) return;
            const x = plot.valToPos(this.#cursor, "x", true);
            plot.ctx.fillStyle = ink();
            plot.ctx.fillRect(x, plot.bbox.top, devicePixelRatio, plot.bbox.height);
        };
        return plot(this.#places[n], lines, { height: QUANTITIES[n].height, top: () => this.#tops[n], times: () => [0, this.#duration], onDraw: mark });
    }
}

const mean = (values: Lines) => values.reduce<number>((sum, value) => sum + (value ?? 0), 0) / Math.max(1, values.length);

/** The lines of each chart, or of the first ones. */
export const linesOf = (all: Samples[], charts: number = QUANTITIES.length) => QUANTITIES.slice(0, charts).map(({ id }) => series(id, all));

/** Tops of the axes of a set-up. */
export function tops(charts: Line[][]): number[] {
    return charts.map((lines) => {
        let top = 0;
        for (const line of lines) for (const value of line.high ?? line.values) top = Math.max(top, value ?? 0);
        return (top || 1) * 1.08;
    });
}
