package import Records
package import Wire

/// Makes of what a client asks for the share that is to be, or refuses.
///
/// Pure: who the addresses belong to was looked up before, and identifiers come from outside. SDK reference 15.
package struct ShareEdit: Sendable {
    /// What the participant is called that stands for the owner.
    package static let ownerID = "owner"

    package var owner: UserID
    /// Accounts behind the addresses that the request names.
    package var people: [UserLookup: UserID]
    /// 128 random bits as text: for links and participants.
    package var newID: @Sendable () -> String

    package init(
        owner: UserID,
        people: [UserLookup: UserID] = [:],
        newID: @escaping @Sendable () -> String
    ) {
        self.owner = owner
        self.people = people
        self.newID = newID
    }

    /// A new share of a hierarchy, or with no root of a zone.
    package func make(_ input: ShareInput, root: String?, shortGUID: String?) throws(RelayError) -> Share {
        let permission = input.publicPermission ?? .none
        var share = Share(root: root, shortGUID: shortGUID ?? newID())
        share.participants = try participants(input.participants ?? [], of: share, mayChange: permission == .none)
        share.publicPermission = permission
        return share
    }

    /// `share` with what the client wants changed.
    package func update(_ share: Share, _ input: ShareInput) throws(RelayError) -> Share {
        let permission = input.publicPermission ?? share.publicPermission
        var changed = share
        if permission == .none { changed = share.changingPublicPermission(to: .none).share }
        if let given = input.participants {
            // People whom the end of the link has just removed may still stand in what the client sends.
            let gone = Set(share.participants.map(\.id)).subtracting(changed.participants.map(\.id))
            changed.participants = try participants(
                given.filter { input in input.id.map { !gone.contains($0) } ?? true },
                of: changed,
                mayChange: permission == .none
            )
        }
        return changed.changingPublicPermission(to: permission).share
    }

    /// The share's participants as `wanted` has them.
    private func participants(
        _ wanted: [ParticipantInput],
        of share: Share,
        mayChange: Bool
    ) throws(RelayError) -> [Share.Participant] {
        var kept: [String: Share.Participant] = [:]
        var added: [Share.Participant] = []
        for input in wanted where !isOwner(input) && !input.isRemoved {
            let (user, contact) = try whom(input)
            if var known = share.participants.first(where: { $0.isMeant(by: input, user, contact) }) {
                known.permission = input.permission ?? known.permission
                if known.role != .publicUser, let role = input.role, role != .publicUser { known.role = role }
                if known.role == .publicUser { known.permission = share.publicPermission }
                kept[known.id] = known
            } else if let index = added.firstIndex(where: { $0.isMeant(by: input, user, contact) }) {
                added[index].permission = input.permission ?? added[index].permission
            } else {
                guard user != nil || contact != nil else { continue }
                guard user != owner else { continue }
                added.append(
                    Share.Participant(
                        id: newID(),
                        role: input.role == .administrator ? .administrator : .user,
                        permission: input.permission ?? .readOnly,
                        user: user,
                        contact: contact
                    )
                )
            }
        }
        guard mayChange || (added.isEmpty && kept.count == share.participants.count) else {
            throw .badRequest(
                "People cannot be invited or removed while anyone with the link may join. "
                    + "Set publicPermission to NONE first."
            )
        }
        let all = share.participants.compactMap { kept[$0.id] } + added
        guard all.count <= Share.participantLimit else { throw .tooManyParticipants }
        return all
    }

    private func isOwner(_ input: ParticipantInput) -> Bool {
        input.role == .owner || input.id == Self.ownerID || input.userRecordName == owner.recordName
    }

    /// Whom a client means: the account, where there is one, and the address it gave.
    private func whom(_ input: ParticipantInput) throws(RelayError) -> (UserID?, Share.Contact?) {
        if let text = input.emailAddress {
            guard let address = AccountRules.canonicalEmail(text) else {
                throw .badRequest("A participant's emailAddress is not an e-mail address.")
            }
            return (people[.email(address)], .email(address))
        }
        if let text = input.phoneNumber {
            guard let number = AccountRules.canonicalPhone(text) else {
                throw .badRequest("A participant's phoneNumber is not a telephone number.")
            }
            return (people[.phone(number)], .phone(number))
        }
        if let name = input.userRecordName {
            // Of one that is nobody's nothing is said.
            guard name.utf8.count == 33, name.utf8.first == UInt8(ascii: "_") else {
                throw .badRequest("A participant's userRecordName is not that of a user.")
            }
            return (UserID(name), nil)
        }
        guard input.id != nil else {
            throw .badRequest("A participant needs userIdentity.lookupInfo: an address, a number or a record name.")
        }
        return (nil, nil)
    }
}

extension Share.Participant {
    fileprivate func isMeant(by input: ParticipantInput, _ user: UserID?, _ contact: Share.Contact?) -> Bool {
        if input.id == id { return true }
        if let user, user == self.user { return true }
        return contact != nil && contact == self.contact
    }
}

extension RelayError {
    static let tooManyParticipants = RelayError(
        .badRequest,
        "A share has at most \(Share.participantLimit) participants.",
        fineCode: .tooManyParticipants
    )
    static let alreadyShared = RelayError(
        .badRequest,
        "The record, or one above or below it, is in another share.",
        fineCode: .alreadyShared
    )
    static let shareExists = RelayError(
        .exists,
        "The record has a share of its own already. Change that one, or delete it first.",
        fineCode: .alreadyShared
    )
    static let nothingToShare = RelayError(.notFound, "Cannot share - no such record exists to share")
}

extension ParticipantInput {
    /// By what the account is to be looked for; `nil` where nothing, or nothing that can be one, says so.
    package var lookup: UserLookup? {
        if let emailAddress { return AccountRules.canonicalEmail(emailAddress).map { .email($0) } }
        return phoneNumber.flatMap(AccountRules.canonicalPhone).map { .phone($0) }
    }
}
