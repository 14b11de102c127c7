import { readdir, readFile } from "node:fs/promises";
import { expect } from "chai";

const documentation = new URL("../../docs/contracts.md", import.meta.url);
const folder = new URL("../contracts/attacks/", import.meta.url);

/** Attacks of a test file as rows of the table, without what holds. */
function attacksIn(file: string, source: string): string[] {
  return [...source.matchAll(/attack\(\s*"([^"]+)",\s*\[([^\]]*)\]/g)].map(([, name = "", list = ""]) => {
    const weaknesses = [...list.matchAll(/"([^"]*)"/g)].map(([, weakness]) => weakness);
    return [name, file.replace(".test.ts", ""), weaknesses.join("; ")].join(" | ");
  });
}

describe("the documented table of attacks", () => {
  it("names every attack that is tested, with what is weakened, and no other", async () => {
    const files = (await readdir(folder)).filter((name) => name.endsWith(".test.ts"));
    const sources = await Promise.all(files.map(async (file) => await readFile(new URL(file, folder), "utf8")));
    const tested = files.flatMap((file, index) => attacksIn(file, sources[index] ?? ""));
    const section = (await readFile(documentation, "utf8")).split("\n## Attacks\n")[1]?.split("\n## ")[0] ?? "";
    const documented = [...section.matchAll(/^\| (.+) \| .+ \| (\w+) \| (.+) \|$/gm)]
      .filter(([, attack]) => attack !== "attack")
      .map(([, attack, file, weaknesses]) => [attack, file, weaknesses].join(" | "));
    expect(tested.length).to.be.greaterThan(50);
    expect(documented).to.have.members(tested);
  });
});
