import { expect } from "chai";
import type { Hex } from "viem";
import type { JobEvent } from "../../../chain/registry-index/types.ts";
import type { PostOutcome, PostRequest } from "../../../gateway/jobs/escrow-calls.ts";
import { SightedPosts } from "../../../gateway/jobs/sighted-posts.ts";
import { person } from "../../support/fake-chain.ts";

const idOf = (nonce: bigint): Hex => `0x${nonce.toString(16).padStart(64, "0")}`;
const request = (nonce: bigint) => ({ nonce }) as PostRequest;
const place = { blockNumber: 7, blockHash: idOf(7n), transactionHash: idOf(70n), logIndex: 0 };
const posted = (nonce: bigint, removed = false): JobEvent => ({
  type: "posted",
  client: person(1),
  offeringId: 1,
  maxPayment: 1n,
  unsignedLimit: 1n,
  deadline: 1,
  jobId: idOf(nonce),
  provider: person(2),
  place,
  removed,
});
const refused: PostOutcome = { kind: "failed", errorName: "EnforcedPause", message: "paused" };

describe("a post", () => {
  it("is posted once the index has seen it, and not by another job's event or by one that is taken back", async () => {
    const later = Promise.withResolvers<PostOutcome>();
    const posts = new SightedPosts({ jobIdOf: idOf, post: async () => await later.promise });
    const first = posts.post(request(1n));
    const second = posts.post(request(2n));
    posts.observe(posted(3n));
    posts.observe(posted(1n, true));
    posts.observe(posted(2n));
    expect(await second).to.deep.equal({
      kind: "posted",
      provider: person(2),
      transactionHash: place.transactionHash,
      blockNumber: 7,
    });
    later.resolve(refused);
    expect(await first).to.equal(refused);
  });

  it("that was told of already may fail afterwards without anybody having to hear of it", async () => {
    const later = Promise.withResolvers<PostOutcome>();
    const posts = new SightedPosts({ jobIdOf: idOf, post: async () => await later.promise });
    const outcome = posts.post(request(1n));
    posts.observe(posted(1n));
    expect(await outcome).to.include({ kind: "posted" });
    later.reject(new Error("the transaction queue is closed"));
    posts.observe(posted(1n));
  });
});
