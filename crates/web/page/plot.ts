/** Charts over time, of the playground and of live runs. */

import uPlot from "uplot";

/** Colours that people with any colour vision can tell apart, for light and for dark pages. */
export const LIGHT = ["#0072b2", "#b84e00", "#00785a", "#6a3fa0", "#7a5c00", "#7a4a1e"];
export const DARK = ["#56b4e9", "#f0894a", "#34c79a", "#b79aea", "#d8b84a", "#d09a70"];
export const EMPHASISED = { name: "upwind", light: "#c4006a", dark: "#ff6fb0" };

const dark = matchMedia("(prefers-color-scheme: dark)");
export const isDark = () => dark.matches;
export const onTheme = (then: () => void) => dark.addEventListener("change", then);

export const ink = () => (isDark() ? "#a7acb5" : "#5b6068");

export type Lines = (number | null)[];
export interface Line {
    label: string;
    color: string;
    values: Lines;
    dash?: number[];
    width?: number;
    /** The band of the repetitions. */
    low?: Lines;
    high?: Lines;
}

/** All of some lines but their values: a chart is made again if it changes. */
export const shape = (lines: Line[]) => JSON.stringify([isDark(), lines.map((line) => [line.label, line.color, !!line.low])]);

export interface Look {
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
export function plot(place: HTMLElement, lines: Line[], { height, top, times, onDraw }: Look): uPlot {
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
        hooks: { draw: onDraw ? [onDraw] : [] },
    };
    return new uPlot(options, [[0], ...series.slice(1).map(() => [0])] as uPlot.AlignedData, place);
}
