// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {TestToken} from "./TestToken.sol";

/// @title FeeToken
/// @notice A token that burns a part of every transfer.
contract FeeToken is TestToken {
    uint256 private constant BPS = 10_000;

    uint256 private immutable FEE_BPS;

    constructor(uint256 feeBps) TestToken(6) {
        FEE_BPS = feeBps;
    }

    function _update(address from, address to, uint256 value) internal override {
        uint256 fee = from == address(0) || to == address(0) ? 0 : (value * FEE_BPS) / BPS;
        if (fee != 0) super._update(from, address(0), fee);
        super._update(from, to, value - fee);
    }
}
