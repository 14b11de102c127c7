import { expect } from "chai";
import { type Intent, newIntent } from "../../../chain/transactions/intent.ts";
import { IntentBook } from "../../../chain/transactions/intent-book.ts";
import { receiver } from "./support/queue-place.ts";

function intentOf(key: string, nonce: number): Intent {
  const intent = newIntent({ key, kind: "test", to: receiver, data: "0x", gas: undefined, createdAt: 0 });
  intent.nonce = nonce;
  return intent;
}

describe("the book of a queue's intents", () => {
  it("gives no nonce that is in flight, though a node that lags does not count it", () => {
    const book = new IntentBook();
    expect(book.firstFreeNonce(7)).to.equal(7);
    for (const nonce of [9, 8]) book.byNonce.set(nonce, intentOf(`k${nonce}`, nonce));
    expect(book.firstFreeNonce(7)).to.equal(10);
    expect(book.firstFreeNonce(12), "another process has used some").to.equal(12);
    expect(book.inFlight().map(({ nonce }) => nonce)).to.deep.equal([8, 9]);
  });

  it("does not lose a transaction that was submitted afresh when the one before it under its key ends", () => {
    const book = new IntentBook();
    const before = intentOf("same", 1);
    const afresh = intentOf("same", 2);
    book.byKey.set("same", before);
    book.byKey.set("same", afresh);
    book.forget(before);
    expect(book.byKey.get("same")).to.equal(afresh);
    book.forget(afresh);
    expect(book.byKey.size).to.equal(0);
  });

  it("is watched while only a transaction that was given up is undecided", () => {
    const book = new IntentBook();
    expect(book.isWatched).to.equal(false);
    book.givenUp.add(intentOf("late", 3));
    expect(book.isWatched).to.equal(true);
  });
});
