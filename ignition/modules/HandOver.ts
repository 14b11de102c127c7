import { buildModule } from "@nomicfoundation/hardhat-ignition/modules";
import T4T from "./T4T.ts";

/** Offers both contracts of the module T4T to the parameter `owner`, who must then call `acceptOwnership` on each. */
// oxlint-disable-next-line import/no-default-export -- what Ignition loads
export default buildModule("HandOver", (m) => {
  const { registry, escrow } = m.useModule(T4T);
  const owner = m.getParameter<string>("owner");
  m.call(registry, "transferOwnership", [owner]);
  m.call(escrow, "transferOwnership", [owner]);
  return { registry, escrow };
});
