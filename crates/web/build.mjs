// Bundles what build.sh compiled. Run build.sh.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { deflateRawSync } from "node:zlib";
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
