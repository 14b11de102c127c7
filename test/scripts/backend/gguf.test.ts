import { mkdtemp, readdir, readFile, rm, truncate } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import * as fc from "fast-check";
import { buildGguf, ensureGguf } from "../../../scripts/backend/gguf.ts";
import { toFloat16 } from "../../../scripts/backend/gguf-writer.ts";

/** The value of half-precision bits. */
function fromFloat16(bits: number): number {
  const sign = (bits & 0x8000) === 0 ? 1 : -1;
  const exponent = (bits >>> 10) & 31;
  return exponent === 0 ? 0 : sign * 2 ** (exponent - 15) * (1 + (bits & 1023) / 1024);
}

describe("toFloat16", () => {
  it("is exact for what a half can hold and off by half a step at most", () => {
    expect([1, -2, 0.5, 65_504, 0].map((value) => fromFloat16(toFloat16(value)))).to.deep.equal([
      1, -2, 0.5, 65_504, 0,
    ]);
    fc.assert(
      fc.property(fc.double({ min: 2 ** -14, max: 65_000, noNaN: true }), (value) => {
        expect(Math.abs(fromFloat16(toFloat16(-value)) + value)).to.be.at.most(value * 2 ** -11 * 1.001);
      }),
    );
  });

  it("clamps what is too large instead of making infinity", () => {
    expect(fromFloat16(toFloat16(1e9))).to.equal(65_504);
  });
});

describe("the model file", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "t4t-gguf-"));
  });
  afterEach(async () => {
    await rm(folder, { recursive: true });
  });

  it("has the same bytes every time, is a GGUF of version 3 and smaller than 10 MB", () => {
    const bytes = buildGguf();
    expect(bytes.equals(buildGguf())).to.equal(true);
    expect(bytes.subarray(0, 4).toString()).to.equal("GGUF");
    expect(bytes.readUInt32LE(4)).to.equal(3);
    expect(bytes.length).to.be.below(10_000_000);
  });

  it("is written once, whole, though several processes start together", async () => {
    const nested = join(folder, "not", "there");
    const paths = await Promise.all(Array.from({ length: 5 }, () => ensureGguf(nested)));
    expect(new Set(paths).size).to.equal(1);
    expect(await readdir(nested)).to.have.length(1);
    expect((await readFile(paths[0] ?? "")).equals(buildGguf())).to.equal(true);
  });

  it("is written again when a crash or a full disk left a part of it", async () => {
    const path = await ensureGguf(folder);
    await truncate(path, 1000);
    expect(await ensureGguf(folder)).to.equal(path);
    expect((await readFile(path)).equals(buildGguf())).to.equal(true);
  });
});
