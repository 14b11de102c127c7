import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { Compiler } from "../../scripts/mutation/compiler.ts";

const documentation = new URL("../../docs/contracts.md", import.meta.url);

describe("the documented storage layout", () => {
  it("is the compiler's, so that whoever reads storage by it reads what is there", async () => {
    const documented = [
      ...(await readFile(documentation, "utf8")).matchAll(/^\| (\w[\w.]*) \| (\d+) \| (\d+) \| `(\w+)` \|$/gm),
    ].map(([, where, slot, offset, variable]) => `${where} ${slot} ${offset} ${variable}`);
    const compiled = new Compiler(fileURLToPath(new URL("../../", import.meta.url))).storageLayout();
    expect(documented).to.have.members(
      compiled.map(({ where, slot, offset, variable }) => `${where} ${slot} ${offset} ${variable}`),
    );
  });
});
