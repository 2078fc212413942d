// Bundles what build.sh compiled. Run build.sh.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { deflateRawSync, gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "../..");
const web = join(root, "target/web");
const out = join(root, "target/npm/windward");

const wasm = deflateRawSync(readFileSync(join(web, "engine_bg.wasm")), { level: 9 }).toString("base64");
writeFileSync(join(web, "wasm.js"), `export default "${wasm}";\n`);
writeFileSync(join(web, "wasm.d.ts"), "declare const compressed: string;\nexport default compressed;\n");

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
await build({
    absWorkingDir: here,
    entryPoints: ["package/windward.ts"],
    outfile: join(out, "windward.js"),
    bundle: true,
    format: "esm",
    target: "es2022",
    platform: "neutral",
    logLevel: "warning",
});
const tsc = join(here, "node_modules/typescript/bin/tsc");
execFileSync(process.execPath, [tsc, "-p", here], { stdio: "inherit" });
execFileSync(process.execPath, [tsc, "-p", join(here, "tsconfig.types.json")], { stdio: "inherit" });
const declared = readFileSync(join(web, "types/windward.d.ts"), "utf8");
// What only the constructors of the package take is not in its types.
writeFileSync(join(out, "windward.d.ts"), declared.replace(/^import .*\n/gm, ""));
for (const file of ["package.json", "README.md", "example.mjs"]) copyFileSync(join(here, "package", file), join(out, file));
for (const file of ["LICENSE-MIT", "LICENSE-APACHE"]) copyFileSync(join(root, file), join(out, file));
copyFileSync(join(root, "experiments/examples/first.toml"), join(out, "first.toml"));

// The pages, each one file: the playground, which works from a server and from a disk, and that of live charts.

const EXAMPLES = ["first", "graph", "handover", "parking-lot", "satellite", "upload", "datagrams"];
const FIELD = ["geo", "long-path", "many-connections", "today"];
const PAPERS = ["lr2008/fig2", "lr2008/fig9", "eten2004/fig3", "tcpwbr2003/fig2", "tcpwbr2003/fig6", "xcpr2005/fig10", "estcp2010/fig1"];

/** A scenario of the repository, without its table for sweeps. */
function preset(family, folder, name, prefix = "") {
    const whole = readFileSync(join(root, "experiments", folder, `${name}.toml`), "utf8");
    const title = /^title = "(.*)"$/m.exec(whole)?.[1] ?? /^# (.*?)\.?$/m.exec(whole)?.[1] ?? name;
    const text = whole.replace(/^\[\[?experiment[\s\S]*/m, "").trimEnd() + "\n";
    return { family, title: prefix + (title.length > 90 ? `${title.slice(0, 88)}…` : title), text };
}

const worst = readdirSync(join(root, "experiments/upwind/worst")).filter((file) => /^\d\d-.*\.toml$/.test(file)).sort();
const presets = [
    ...EXAMPLES.map((name) => preset("Examples", "examples", name)),
    ...FIELD.map((name) => preset("Reports from the field", "field", name)),
    ...PAPERS.map((name) => preset("Papers", "papers", name, `${name.split("/")[0]}: `)),
    ...worst.map((file) => {
        const name = file.replace(/\.toml$/, "");
        return { ...preset("Upwind’s worst links", "upwind/worst", name), title: name.replaceAll("-", " ") };
    }),
];

/** The packages of which a page has code. */
const bundled = new Set();

const page = async (entry, plugins = []) => {
    const { metafile, outputFiles } = await build({
        absWorkingDir: here,
        entryPoints: [`page/${entry}`],
        bundle: true,
        minify: true,
        write: false,
        format: "iife",
        target: "es2022",
        charset: "utf8",
        legalComments: "none",
        logLevel: "warning",
        metafile: true,
        plugins,
    });
    for (const file of Object.keys(metafile.inputs)) {
        const name = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1];
        if (name) bundled.add(name);
    }
    // Neither may end the element that it stands in.
    return outputFiles[0].text.trim().replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
};
const embedded = {
    name: "presets",
    setup({ onResolve, onLoad }) {
        onResolve({ filter: /^virtual:presets$/ }, ({ path }) => ({ path, namespace: "presets" }));
        onLoad({ filter: /.*/, namespace: "presets" }, () => ({ contents: JSON.stringify(presets), loader: "json" }));
    },
};
const style = readFileSync(join(here, "page/page.css"), "utf8").replace(/\s*\n\s*/g, " ").trim();
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** A page as one file with its own policy: what it allows besides its script, in `allowed` and `sources`. */
function pack(file, main, { allowed = "", sources, before = "" }) {
    const policy = [
        "default-src 'none'",
        `script-src ${hash(main)}${allowed}`,
        `style-src ${hash(style)}`,
        sources,
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ].join("; ");
    const pieces = {
        policy: `<meta http-equiv="Content-Security-Policy" content="${policy}">`,
        style: `<style>${style}</style>`,
        scripts: `${before}<script>${main}</script>`,
    };
    return readFileSync(join(here, "page", file), "utf8").replace(/<!-- (\w+) -->/g, (_, piece) => pieces[piece]);
}

const before = `<script type="text/plain" id="engine">${await page("worker.ts")}</script>\n`;
const pages = {
    play: pack("index.html", await page("main.ts", [embedded]), { allowed: " 'wasm-unsafe-eval'", sources: "worker-src blob:", before }),
    live: pack("live.html", await page("live.ts"), { sources: "connect-src 'self'" }),
};
/** The licence of a package, which its code must come with. */
function licence(name) {
    const folder = join(here, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    if (!file) throw new Error(`${name} has no licence file`);
    return `${"=".repeat(80)}\n${name} ${version}: ${license}\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
}

const licences = `The pages of Windward contain the packages below.\n\n${[...bundled].sort().map(licence).join("\n")}`;
writeFileSync(join(web, "licences.txt"), licences);
if (process.argv.includes("--page")) {
    mkdirSync(join(here, "dist"), { recursive: true });
    writeFileSync(join(here, "dist/licences.txt"), licences);
}
for (const [name, html] of Object.entries(pages)) {
    const packed = gzipSync(html, { level: 9 });
    writeFileSync(join(web, `${name}.html`), html);
    console.log(`target/web/${name}.html: ${html.length} bytes, ${packed.length} compressed`);
    if (process.argv.includes("--page")) writeFileSync(join(here, `dist/${name}.html.gz`), packed);
}
