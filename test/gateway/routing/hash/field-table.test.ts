import { expect } from "chai";
import { FieldTable } from "../../../../gateway/routing/hash/field-table.ts";

describe("the table of texts to hash", () => {
  it("refuses a text that its room does not hold, so that no two providers hash alike for a cut text", () => {
    const table = new FieldTable();
    expect(() => table.push("x".repeat(45))).to.throw(RangeError, "44 bytes");
    expect(() => table.push("ä")).to.throw(RangeError, "ASCII");
    table.push("x".repeat(44));
  });
});
