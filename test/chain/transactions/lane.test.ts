import { expect } from "chai";
import { Lane } from "../../../chain/transactions/lane.ts";

describe("the lane of a queue", () => {
  it("runs one work at a time in the order asked, so that no two transactions are given one nonce", async () => {
    const lane = new Lane();
    const steps: string[] = [];
    const first = Promise.withResolvers<void>();
    const runs = ["first", "second", "third"].map(
      async (name) =>
        await lane.run(async () => {
          steps.push(`${name} begins`);
          if (name === "first") await first.promise;
          steps.push(`${name} ends`);
        }),
    );
    await Promise.resolve();
    expect(steps).to.deep.equal(["first begins"]);
    first.resolve();
    await Promise.all(runs);
    expect(steps).to.deep.equal([
      "first begins",
      "first ends",
      "second begins",
      "second ends",
      "third begins",
      "third ends",
    ]);
  });

  it("goes on after a work that failed, whose error only its own caller sees", async () => {
    const lane = new Lane();
    const failed = lane.run(async () => await Promise.reject(new Error("disk full")));
    const next = lane.run(async () => await Promise.resolve("done"));
    expect(await failed.catch((error: unknown) => String(error))).to.equal("Error: disk full");
    expect(await next).to.equal("done");
    await lane.idle();
  });
});
