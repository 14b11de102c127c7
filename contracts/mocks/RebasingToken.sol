// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";

import {TestToken} from "./TestToken.sol";

/// @title RebasingToken
/// @notice A token whose balances all grow or shrink at once, as those of staked or lent assets do.
contract RebasingToken is TestToken {
    uint256 private constant WHOLE = 1e18;

    uint256 public rate = WHOLE;

    constructor() TestToken(6) {}

    /// @notice From now on every balance is `rate_` / 1e18 of what was minted or sent at a rate of 1e18.
    function setRate(uint256 rate_) external {
        rate = rate_;
    }

    function balanceOf(address account) public view override returns (uint256) {
        return Math.mulDiv(super.balanceOf(account), rate, WHOLE);
    }

    function _update(address from, address to, uint256 value) internal override {
        super._update(from, to, Math.mulDiv(value, WHOLE, rate));
    }
}
