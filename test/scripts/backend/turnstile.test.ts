import { expect } from "chai";
import { Turnstile } from "../../../scripts/backend/turnstile.ts";

describe("Turnstile", () => {
  it("is shut until the last of several workers is done, and open again even when one fails", async () => {
    const turnstile = new Turnstile();
    const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    expect(turnstile.shut).to.equal(undefined);
    const one = turnstile.whileShut(() => first.promise);
    const two = turnstile.whileShut(() => second.promise).catch((error: unknown) => error);
    let passed = false;
    const passing = turnstile.shut?.then(() => {
      passed = true;
    });
    first.resolve();
    await one;
    expect(passed).to.equal(false);
    const failure = new Error("broken");
    second.reject(failure);
    expect(await two).to.equal(failure);
    await passing;
    expect([passed, turnstile.shut]).to.deep.equal([true, undefined]);
  });
});
