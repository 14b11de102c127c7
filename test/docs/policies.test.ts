import { readFile } from "node:fs/promises";
import path from "node:path";
import { expect } from "chai";
import { z } from "zod";
import { policyConfigSchema } from "../../gateway/routing/policy-config.ts";

const page = await readFile(path.join(import.meta.dirname, "../../docs/routing/policies.md"), "utf8");

/** What a JSON schema says of one setting. */
interface SettingSchema {
  readonly type: string;
  readonly default?: string | number | boolean;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly enum?: readonly string[];
}

interface PolicySchema {
  readonly properties: Readonly<Record<string, SettingSchema>> & { readonly name: { readonly const: string } };
}

/** What may be written, in the page's words. */
function allowed({ type, minimum, maximum, enum: words }: SettingSchema): string {
  if (words !== undefined) return words.join(" or ");
  if (type === "boolean") return "true or false";
  if (type === "string") return "an address";
  const range = maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? "or more" : `to ${maximum}`;
  return `${type === "integer" ? "whole, " : ""}${minimum ?? "any"} ${range}`;
}

/** One line for each setting of each policy: policy, setting, default, what is allowed. */
function settingsOfCode(): string[] {
  const schema = z.toJSONSchema(policyConfigSchema, { unrepresentable: "any", io: "input" });
  const policies = (schema.oneOf ?? schema.anyOf ?? []) as unknown as readonly PolicySchema[];
  return policies.flatMap(({ properties: { name, ...settings } }) =>
    Object.entries(settings).map(([setting, own]) =>
      [name.const, setting, String(own.default ?? ""), allowed(own)].join(" | "),
    ),
  );
}

function settingsOfPage(): string[] {
  const rows = page.split("| setting | of |")[1]?.split("\n\n")[0]?.split("\n").slice(2) ?? [];
  return rows.flatMap((row) => {
    const cells = row.replaceAll("`", "").split("|");
    const [, setting = "", policies = "", byDefault = "", mayBe = ""] = cells.map((cell) => cell.trim());
    return policies.split(", ").map((policy) => [policy, setting, byDefault, mayBe].join(" | "));
  });
}

describe("docs/routing/policies.md", () => {
  it("names every setting of every policy with its default and bounds, and none that does not exist", () => {
    const code = settingsOfCode();
    expect(code.length).to.be.greaterThan(30);
    expect(settingsOfPage()).to.have.members(code);
  });
});
