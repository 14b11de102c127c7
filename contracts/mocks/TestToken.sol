// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Permit.sol";

/// @title TestToken
/// @notice A token for local chains and tests: anyone can mint any amount. Never deploy it where money is real.
contract TestToken is ERC20, ERC20Permit {
    uint8 private immutable DECIMALS;

    constructor(uint8 decimals_) ERC20("T4T Test Token", "TTT") ERC20Permit("T4T Test Token") {
        DECIMALS = decimals_;
    }

    /// @notice Makes `amount` of the smallest unit for `to`.
    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    /// @inheritdoc ERC20
    function decimals() public view override returns (uint8) {
        return DECIMALS;
    }
}
