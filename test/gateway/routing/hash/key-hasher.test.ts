import { expect } from "chai";
import { KeyHasher } from "../../../../gateway/routing/hash/key-hasher.ts";

describe("the hash of a key and many providers", () => {
  it("is for several at once what it is for each alone, however long the texts and whoever hashed before", () => {
    const lasts = ["", "a", "0x52908400098527886E0F7030069857D2E4169EE7", "äöü".repeat(30), "x".repeat(5000)];
    const alone = lasts.map((last) => new KeyHasher(7, "model", "key").unit(last));
    const hasher = new KeyHasher(7, "model", "key");
    expect(hasher.units(lasts)).to.deep.equal(alone);
    new KeyHasher(8, "another", "key of somebody else").unit("a");
    expect(hasher.units(lasts)).to.deep.equal(alone);
    expect(hasher.units([])).to.deep.equal([]);
    expect(new Set(alone).size).to.equal(lasts.length);
  });
});
