import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { expect } from "chai";

const root = new URL("../../", import.meta.url);
const { loadRules } = createRequire(import.meta.url)("solhint/lib/load-rules") as {
  loadRules: () => readonly { readonly ruleId: string }[];
};

describe("the rules of solhint", () => {
  it("are on, or off for a reason that is written down, so that none is left out unseen", async () => {
    const { rules } = JSON.parse(await readFile(new URL(".solhint.json", root), "utf8")) as { rules: object };
    const text = await readFile(new URL("docs/contracts.md", root), "utf8");
    const [, table = ""] = /^\| off \| because \|\n((?:\|.*\n)+)/m.exec(text) ?? [];
    const off = table
      .split("\n")
      .flatMap((row) => [...(row.split("|")[1] ?? "").matchAll(/`([\w-]+)`/g)].map(([, id]) => id));
    const known = loadRules().map(({ ruleId }) => ruleId);
    expect([...Object.keys(rules), ...off]).to.have.members([...new Set(known)]);
  });
});
