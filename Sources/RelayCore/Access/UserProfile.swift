package import Records

/// One person as a user of one container, and what they let others know of them.
package struct UserProfile: Hashable, Sendable {
    package var user: UserID
    package var account: Account
    /// Whether other users of the container may find the person and see their name: their own choice, at first no.
    ///
    /// See Wire.md, "User operations", and CloudKit's `userDiscoverability` permission.
    package var isDiscoverable: Bool

    package init(user: UserID, account: Account, isDiscoverable: Bool) {
        self.user = user
        self.account = account
        self.isDiscoverable = isDiscoverable
    }

    /// The name as others may see it: none unless the person chose so.
    package var shownName: PersonName { isDiscoverable ? account.name : PersonName() }
}

/// By what one looks for a user of a container.
package enum UserLookup: Hashable, Sendable {
    /// As in `AccountRules.canonicalEmail`.
    case email(String)
    /// As in `AccountRules.canonicalPhone`.
    case phone(String)
    case user(UserID)
}

/// Who of those looked for may be told about.
///
/// Somebody who is not there and somebody who does not want to be found are the same: left out; but everybody finds
/// themselves. See Wire.md, "User operations".
package enum Discovery {
    /// The people behind `lookups`, in their order, each once for each place it stands at.
    package static func find(
        _ lookups: [UserLookup?],
        among profiles: [UserLookup: UserProfile],
        by caller: UserID
    ) -> [(index: Int, profile: UserProfile)] {
        lookups.enumerated().compactMap { index, lookup in
            guard let lookup, let profile = profiles[lookup], profile.isDiscoverable || profile.user == caller,
                !profile.account.isDisabled
            else { return nil }
            return (index, profile)
        }
    }
}
