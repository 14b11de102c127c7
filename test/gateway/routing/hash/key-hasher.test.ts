import { expect } from "chai";
import { FieldTable } from "../../../../gateway/routing/hash/field-table.ts";
import { KeyHasher } from "../../../../gateway/routing/hash/key-hasher.ts";
import { seeded } from "../support/request.ts";

describe("the hash of a key and many providers", () => {
  it("is for several of a table what it is for each alone, however long the key and whoever hashed before", () => {
    const random = seeded(7);
    const texts = Array.from({ length: 300 }, (_, index) => "x".repeat(index % 45) + random()).map((it) =>
      it.slice(0, 44),
    );
    const table = new FieldTable();
    for (const text of texts) table.push(text);
    for (const key of ["", "key", "äöü".repeat(30), "long ".repeat(5000)]) {
      const hasher = new KeyHasher(7, "model", key);
      const places = texts.map((_, index) => (index * 7) % texts.length);
      const alone = places.map((place) => new KeyHasher(7, "model", key).unit(texts[place] as string));
      expect(hasher.units(table, places)).to.deep.equal(alone);
      new KeyHasher(8, "another", "key of somebody else").unit("a");
      expect(hasher.units(table, places)).to.deep.equal(alone);
      expect(hasher.unit(texts[7] as string)).to.equal(alone[1]);
      expect(hasher.units(table, [])).to.deep.equal([]);
      expect(new Set(alone).size).to.equal(new Set(texts).size);
    }
  });

  it("tells every field of the key from every other", () => {
    const places = [
      new KeyHasher(1, "a", "b"),
      new KeyHasher(2, "a", "b"),
      new KeyHasher(2 ** 32 + 1, "a", "b"),
      new KeyHasher(1, "ab", ""),
      new KeyHasher(1, "ab"),
      new KeyHasher(1, "", "ab"),
      new KeyHasher(1, "A", "b"),
    ].map((hasher) => hasher.position());
    expect(new Set(places).size).to.equal(places.length);
  });
});
