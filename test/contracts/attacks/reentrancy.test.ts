import { attack, type Stage } from "../support/attack.ts";
import { dataOf, hostileTokenMarket, reentrant } from "../support/hostile.ts";
import { ethers, time } from "../support/chain.ts";
import { ENDPOINT, PAYMENT } from "../support/market.ts";

/** Whether an account that deposits twice what it has, the second time from within the first, is credited for more than it paid. */
async function depositsTwice(stage: Stage, again: "deposit" | "depositFor" | "depositWithPermit"): Promise<boolean> {
  const { market } = await hostileTokenMarket(stage);
  const thief = await reentrant(market, 2n * PAYMENT);
  const args = {
    deposit: [PAYMENT],
    depositFor: [await thief.getAddress(), PAYMENT],
    depositWithPermit: [PAYMENT, 0, 27, ethers.ZeroHash, ethers.ZeroHash],
  };
  const first = dataOf(market.escrow, "deposit", [PAYMENT]);
  await thief.act(market.escrow, first, dataOf(market.escrow, again, args[again]), 1);
  return (await market.free(thief)) > (await market.token.balanceOf(market.escrow));
}

describe("attacks through a token that calls back", () => {
  attack(
    "taking a balance out several times from within the transfer",
    ["lets withdraw be re-entered", "pays before it books"],
    async (stage) => {
      const { market } = await hostileTokenMarket(stage);
      await market.client(10n * PAYMENT);
      const thief = await reentrant(market, PAYMENT);
      await thief.act(market.escrow, dataOf(market.escrow, "deposit", [PAYMENT]), "0x", 0);
      const withdraw = dataOf(market.escrow, "withdraw", [PAYMENT, await thief.getAddress()]);
      await thief.act(market.escrow, withdraw, withdraw, 3);
      return (await market.token.balanceOf(thief)) > PAYMENT;
    },
  );

  attack("being credited twice by a deposit within a deposit", ["lets deposit be re-entered"], async (stage) =>
    depositsTwice(stage, "deposit"),
  );

  attack(
    "being credited twice by a deposit for itself within a deposit",
    ["lets depositFor be re-entered"],
    async (stage) => depositsTwice(stage, "depositFor"),
  );

  attack(
    "being credited twice by a deposit with a permit within a deposit",
    ["lets depositWithPermit be re-entered"],
    async (stage) => depositsTwice(stage, "depositWithPermit"),
  );

  attack(
    "taking stake out several times from within the transfer",
    ["lets withdrawStake be re-entered", "pays stake before it books"],
    async (stage) => {
      const { market } = await hostileTokenMarket(stage);
      await market.provider();
      const thief = await reentrant(market, 10n * PAYMENT);
      const address = await thief.getAddress();
      const call = async (name: string, args: readonly unknown[]): Promise<void> => {
        await thief.act(market.registry, dataOf(market.registry, name, args), "0x", 0);
      };
      await call("register", [market.account().address, address, ENDPOINT, 10n * PAYMENT]);
      await call("startUnbonding", [PAYMENT]);
      await time.increase(604_800);
      const withdraw = dataOf(market.registry, "withdrawStake", []);
      await thief.act(market.registry, withdraw, withdraw, 3);
      return (await market.token.balanceOf(thief)) > PAYMENT;
    },
  );

  attack(
    "having stake counted twice by adding to it while adding to it",
    ["lets addStake be re-entered"],
    async (stage) => {
      const { market } = await hostileTokenMarket(stage);
      const thief = await reentrant(market, 10n * PAYMENT);
      const operator = market.account().address;
      const register = dataOf(market.registry, "register", [operator, operator, ENDPOINT, 2n * PAYMENT]);
      await thief.act(market.registry, register, "0x", 0);
      const add = dataOf(market.registry, "addStake", [PAYMENT]);
      await thief.act(market.registry, add, add, 1);
      return (await market.registry.providerOf(thief)).stake > (await market.token.balanceOf(market.registry));
    },
  );

  attack(
    "having stake counted twice by adding to it while registering",
    ["lets register be re-entered"],
    async (stage) => {
      const { market } = await hostileTokenMarket(stage);
      const thief = await reentrant(market, 10n * PAYMENT);
      const operator = market.account().address;
      const register = dataOf(market.registry, "register", [operator, operator, ENDPOINT, 2n * PAYMENT]);
      await thief.act(market.registry, register, dataOf(market.registry, "addStake", [PAYMENT]), 1);
      return (await market.registry.providerOf(thief)).stake > (await market.token.balanceOf(market.registry));
    },
  );
});
