// The committed pages are up to date: their own code is what build.sh made, and the engine gives the golden fingerprints.
//
// The engine is compared by what it does, since other versions of the compiler make other bytes.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";

const root = join(dirname(fileURLToPath(import.meta.url)), "../../..");
const again = "crates/web/dist is out of date: run crates/web/build.sh --page and commit it";
const engine = /<script type="text\/plain" id="engine">[\s\S]*?<\/script>/;

/** The committed page. It must have the code of the built one. */
function page(name) {
    const built = readFileSync(join(root, `target/web/${name}.html`), "utf8");
    const committed = gunzipSync(readFileSync(join(root, `crates/web/dist/${name}.html.gz`))).toString();
    assert.ok(built.replace(engine, "") === committed.replace(engine, ""), `${name}: ${again}`);
    return committed;
}

const licences = (folder) => readFileSync(join(root, folder, "licences.txt"), "utf8");
assert.equal(licences("crates/web/dist"), licences("target/web"), again);
page("live");
const committed = page("play");

// The worker of the committed page, with this process in the place of the page.
const source = engine.exec(committed)[0].replace(/^<[^>]*>|<\/script>$/g, "");
const answers = new Map();
globalThis.onmessage = null;
globalThis.postMessage = (answer) => answers.get(answer.id)?.(answer);
new Function(source)();
const run = (id, text) =>
    new Promise((resolve) => {
        answers.set(id, (answer) => answer.kind === "result" && resolve(answer.result.outcome));
        globalThis.onmessage({ data: { kind: "runs", id, jobs: [{ index: 0, repetition: 0, text, insists: true }] } });
    });
const golden = join(root, "crates/sim/tests/golden");
const [, ...lines] = readFileSync(join(golden, "fingerprints.csv"), "utf8").trim().split("\n");
for (const [id, line] of lines.entries()) {
    const [protocol, scenario, , , fingerprint] = line.split(",");
    const body = readFileSync(join(golden, `${scenario}.toml`), "utf8").replaceAll("PROTOCOL", protocol);
    const outcome = await run(id + 1, `duration = '5s'\nseed = 7\n${body}`);
    assert.equal(outcome.fingerprint, fingerprint, `${line}: ${again}`);
}
console.log(`page: ${lines.length} golden runs`);
process.exit(0);
