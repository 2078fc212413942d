/** Charts over time, of the playground and of live runs. */

import uPlot from "uplot";

/** Those of drawings and reports: a test of crates/report writes them. */
import palette from "./palette.json";

/**
 * Colours that people with any colour vision can tell apart, for light and for dark pages. The last of the palette is
 * upwind's alone, and the first the ink of the page, which is taken last.
 */
export const [LIGHT, DARK] = [0, 1].map((theme) => [...palette.colors.slice(1, -1), palette.colors[0]].map((pair) => pair[theme]));

const dark = matchMedia("(prefers-color-scheme: dark)");
export const isDark = () => dark.matches;
export const onTheme = (then: () => void) => dark.addEventListener("change", then);

/** How a line looks: its colour, and its marker for those who do not see the colour. */
export interface Look {
    color: string;
    /** Index of its shape. */
    marker: number;
}

/**
 * The looks of groups with these protocols. A protocol has its own, as in drawings; a second group of it, and what is no
 * protocol of the table, have the next that is free.
 */
export function looks(protocols: string[]): Look[] {
    const known = palette.protocols as unknown as Record<string, [number, number]>;
    const count = palette.colors.length - 1;
    const colors: (number | null)[] = protocols.map((name) => (Object.hasOwn(known, name) ? known[name][0] : null));
    const own = colors.map((color, n) => (colors.indexOf(color) === n ? color : null));
    const free = Array.from({ length: count }, (_, n) => (n + 1) % count).filter((color) => !own.includes(color));
    const markers = new Set<number>();
    let next = 0;
    return own.map((color, n) => {
        let marker = color === null ? n : known[protocols[n]][1];
        while (markers.has(marker % MARKERS) && markers.size < MARKERS) marker += 1;
        marker %= MARKERS;
        markers.add(marker);
        return { color: palette.colors[color ?? (free.length ? free[next++ % free.length] : n % count)][isDark() ? 1 : 0], marker };
    });
}

/** Number of different markers. */
export const MARKERS = palette.markers.length;

/** Draws a marker of that shape around a point. */
function shapeAt(draw: CanvasRenderingContext2D, { color, marker }: Look, x: number, y: number, size: number) {
    const name = palette.markers[marker];
    const path = new Path2D();
    const through = (...places: [number, number][]) => {
        places.forEach(([right, down], n) => path[n === 0 ? "moveTo" : "lineTo"](x + right * size, y + down * size));
        path.closePath();
    };
    if (name === "circle" || name === "ring") path.arc(x, y, size * 0.9, 0, 2 * Math.PI);
    else if (name === "square" || name === "frame") path.rect(x - size * 0.8, y - size * 0.8, size * 1.6, size * 1.6);
    else if (name === "triangle") through([0, -1.1], [1, 0.75], [-1, 0.75]);
    else if (name === "wedge") through([0, 1.1], [1, -0.75], [-1, -0.75]);
    else if (name === "diamond") through([0, -1.2], [1.1, 0], [0, 1.2], [-1.1, 0]);
    else {
        through([-0.9, -0.9], [0.9, 0.9]);
        through([-0.9, 0.9], [0.9, -0.9]);
    }
    // The chart relies on what it set.
    draw.save();
    draw.strokeStyle = color;
    draw.lineWidth = size * 0.5;
    const isHollow = name === "ring" || name === "frame";
    draw.fillStyle = isHollow ? getComputedStyle(document.body).backgroundColor : color;
    draw.fill(path);
    if (isHollow || name === "cross") draw.stroke(path);
    draw.restore();
}

/** A piece of a line with its marker, for legends. Forced colours leave it alone. */
export function sample(look: Look): HTMLCanvasElement {
    const [width, height, scale] = [26, 12, Math.max(2, devicePixelRatio)];
    const made = document.createElement("canvas");
    made.className = "sample";
    [made.width, made.height] = [width * scale, height * scale];
    const draw = made.getContext("2d")!;
    draw.scale(scale, scale);
    draw.fillStyle = look.color;
    draw.fillRect(0, height / 2 - 1, width, 2);
    shapeAt(draw, look, width / 2, height / 2, 4);
    return made;
}

/** Markers along a line: every so many samples, apart from those of other lines. */
function markers(plot: uPlot, lines: Line[]) {
    const marked = lines.filter((line) => line.marker !== undefined);
    let at = 1;
    for (const line of lines) {
        const values = plot.data[at];
        at += line.low ? 3 : 1;
        if (line.marker === undefined) continue;
        const n = marked.indexOf(line);
        const step = Math.max(1, Math.round(values.length / 7));
        for (let i = Math.round(((n + 0.5) / marked.length) * step); i < values.length; i += step) {
            const value = values[i];
            if (value === null || value === undefined) continue;
            const [x, y] = [plot.valToPos(plot.data[0][i], "x", true), plot.valToPos(value, "y", true)];
            if (y >= plot.bbox.top) shapeAt(plot.ctx, { color: line.color, marker: line.marker }, x, y, 4 * devicePixelRatio);
        }
    }
}

export const ink = () => (isDark() ? "#a7acb5" : "#5b6068");

export type Lines = (number | null)[];
export interface Line {
    label: string;
    color: string;
    values: Lines;
    /** Index of the shape of its markers; none without it. */
    marker?: number;
    dash?: number[];
    width?: number;
    /** The band of the repetitions. */
    low?: Lines;
    high?: Lines;
}

/** All of some lines but their values: a chart is made again if it changes. */
export const shape = (lines: Line[]) => JSON.stringify([isDark(), lines.map((line) => [line.label, line.color, line.marker, !!line.low])]);

export interface Axes {
    height: number;
    /** Top of the axis. */
    top: () => number;
    /** Both ends of the axis of time; all of the data without it. */
    times?: () => [number, number];
    onDraw?: (plot: uPlot) => void;
}

/** A value of an axis, which has room for five characters. */
const short = (value: number) => (value >= 1e4 ? `${value / 1e3}k` : value.toLocaleString("en"));

/** A chart of such lines, without data. */
export function plot(place: HTMLElement, lines: Line[], { height, top, times, onDraw }: Axes): uPlot {
    const grid = { stroke: isDark() ? "#2a2e36" : "#e9ebee", width: 1 };
    const font = "12px system-ui, sans-serif";
    const bands: uPlot.Band[] = [];
    const series: uPlot.Series[] = [{}];
    for (const { label, color, dash, width, low } of lines) {
        series.push({ label, stroke: color, width: width ?? 1.75, dash, points: { show: false } });
        if (!low) continue;
        bands.push({ series: [series.length + 1, series.length], fill: `${color}30` });
        series.push({ show: true, stroke: "transparent", width: 0, points: { show: false } });
        series.push({ show: true, stroke: "transparent", width: 0, points: { show: false } });
    }
    const options: uPlot.Options = {
        width: Math.max(200, place.clientWidth),
        height,
        legend: { show: false },
        cursor: { sync: { key: "time" }, y: false, drag: { x: false, y: false }, points: { show: false } },
        scales: { x: { time: false, range: times }, y: { range: () => [0, top()] } },
        axes: [
            { stroke: ink(), grid, ticks: { show: false }, font, size: 26, values: (_, ticks) => ticks.map((t) => `${t} s`) },
            { stroke: ink(), grid, ticks: { show: false }, font, size: 44, values: (_, ticks) => ticks.map(short) },
        ],
        series,
        bands,
        hooks: { draw: [(plot) => markers(plot, lines), ...(onDraw ? [onDraw] : [])] },
    };
    return new uPlot(options, [[0], ...series.slice(1).map(() => [0])] as uPlot.AlignedData, place);
}
