// Goodput of two protocols on a link that loses packets: node example.mjs
import { readFile } from "node:fs/promises";
import { run } from "windward";

const toml = await readFile(new URL("first.toml", import.meta.url), "utf8");
for (const protocol of ["newreno", "upwind"]) {
    const outcome = await run(toml, { seed: 9, set: { "flows.lossy.protocol": protocol } });
    const lossy = outcome.groups.find((group) => group.name === "lossy");
    console.log(`${protocol}: ${(lossy.goodput_bps / 1e6).toFixed(2)} Mbit/s, fingerprint ${outcome.fingerprint}`);
}
