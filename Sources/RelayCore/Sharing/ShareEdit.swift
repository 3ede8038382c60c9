package import Records
package import Wire

/// Makes of what a client asks for the share that is to be, or refuses.
///
/// Pure: who the addresses belong to was looked up before, and identifiers come from outside. See Wire.md, "Shares".
package struct ShareEdit: Sendable {
    /// What the participant is called that stands for the owner.
    package static let ownerID = "owner"

    package var owner: UserID
    /// Accounts behind the addresses and the record names that the request names.
    package var people: [UserLookup: UserID]
    /// People in one share, its owner among them.
    package var participantLimit: Int
    /// 128 random bits as text: for links and participants.
    package var newID: @Sendable () -> String
    package var now: Timestamp

    package init(
        owner: UserID,
        people: [UserLookup: UserID] = [:],
        now: Timestamp,
        participantLimit: Int,
        newID: @escaping @Sendable () -> String
    ) {
        self.owner = owner
        self.people = people
        self.participantLimit = participantLimit
        self.now = now
        self.newID = newID
    }

    /// A new share of a hierarchy, or with no root of a zone.
    package func make(_ input: ShareInput, root: String?, shortGUID: String?) throws(RelayError) -> Share {
        let permission = input.publicPermission ?? .none
        var share = Share(root: root, shortGUID: shortGUID ?? newID())
        share.participants = try participants(input.participants ?? [], of: share, mayChange: permission == .none)
        share.publicPermission = permission
        try answer(input.accessRequests, of: &share)
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
        try answer(input.accessRequests, of: &changed)
        return changed.changingPublicPermission(to: permission).share
    }

    /// Allows requests, or denies some; somebody who is blocked is out too.
    private func answer(_ input: AccessRequestsInput?, of share: inout Share) throws(RelayError) {
        if let input {
            guard input.blocked.count <= Share.requesterLimit else { throw .tooManyBlocked }
            share.allowsAccessRequests = input.isAllowed ?? share.allowsAccessRequests
            let unblocked = Set(input.unblocked)
            share.blocked.removeAll { unblocked.contains($0.recordName) }
            for name in input.blocked {
                let user = try Self.user(name)
                guard user != owner, !share.blocked.contains(user), isSomebody(user, share) else { continue }
                share.blocked.append(user)
                share.participants.removeAll { $0.user == user && $0.isNamed }
            }
            let gone = Set(input.denied + input.blocked)
            share.requesters.removeAll { gone.contains($0.recordName) }
            guard share.blocked.count <= Share.requesterLimit else { throw .tooManyBlocked }
        }
        let invited = Set(share.participants.filter(\.isNamed).compactMap(\.user))
        share.requesters.removeAll { invited.contains($0) }
    }

    private static func user(_ name: String) throws(RelayError) -> UserID {
        guard UserLookup.isUserName(name) else { throw .nobody }
        return UserID(name)
    }

    /// Whether there is such a user: each name that is kept takes room for ever, and anybody can make up any number.
    private func isSomebody(_ user: UserID, _ share: Share) -> Bool {
        people[.user(user)] != nil || share.requesters.contains(user) || share.participant(user) != nil
    }

    /// Whether a list is worth a look at each: somebody may stand in it twice, by address and by number.
    fileprivate static func isPlausible(_ list: [ParticipantInput], _ limit: Int) -> Bool {
        list.count { !$0.isRemoved } <= 2 * limit
    }

    /// The share's participants as `wanted` has them.
    private func participants(
        _ wanted: [ParticipantInput],
        of share: Share,
        mayChange: Bool
    ) throws(RelayError) -> [Share.Participant] {
        // A share may have more from before the limit was lowered, and whoever removes some of them names the others.
        guard Self.isPlausible(wanted, max(participantLimit, share.participants.count + 1)) else {
            throw .tooManyParticipants(participantLimit)
        }
        var kept: [String: Share.Participant] = [:]
        var added: [Share.Participant] = []
        for input in wanted where !isOwner(input, of: share) && !input.isRemoved {
            let (user, contact) = try whom(input)
            if var known = share.participants.first(where: { $0.isMeant(by: input, user, contact) }) {
                known.permission = input.permission ?? known.permission
                if known.role != .publicUser, let role = input.role, role == .user || role == .administrator {
                    known.role = role
                }
                if known.role == .publicUser { known.permission = share.publicPermission }
                kept[known.id] = known
            } else if let index = added.firstIndex(where: { $0.isMeant(by: input, user, contact) }) {
                added[index].permission = input.permission ?? added[index].permission
            } else {
                guard user != nil || contact != nil || input.isForAnybody, user != owner else { continue }
                if let user, contact == nil, !isSomebody(user, share) { throw .nobody }
                added.append(newParticipant(input, user, contact, of: share, among: added))
            }
        }
        // Invitations that nobody has answered end with a public link anyway.
        let all = share.participants.compactMap { kept[$0.id] } + added
        guard mayChange || (added.isEmpty && share.participants.allSatisfy { kept[$0.id] != nil || !$0.hasAccepted })
        else {
            throw .badRequest(
                "People cannot be invited or removed while anyone with the link may join. "
                    + "Set publicPermission to NONE first."
            )
        }
        guard added.isEmpty || all.count < participantLimit else { throw .tooManyParticipants(participantLimit) }
        return all
    }

    private func newParticipant(
        _ input: ParticipantInput,
        _ user: UserID?,
        _ contact: Share.Contact?,
        of share: Share,
        among others: [Share.Participant]
    ) -> Share.Participant {
        // A program knows whom it makes a link for by the number it has given them itself.
        let wanted = input.id.flatMap { id -> String? in
            guard input.isForAnybody, Self.isID(id), id != Self.ownerID else { return nil }
            return (share.participants + others).contains { $0.id == id } ? nil : id
        }
        var participant = Share.Participant(
            id: wanted ?? newID(),
            role: input.role == .administrator ? .administrator : .user,
            permission: input.permission ?? .readOnly,
            user: user,
            contact: contact
        )
        participant.added = now
        participant.hasAsked = contact == nil && user.map(share.requesters.contains) ?? false
        return participant
    }

    /// Whether a participant may have this number: it stands in links.
    private static func isID(_ text: String) -> Bool {
        (16...64).contains(text.utf8.count) && text.utf8.allSatisfy { $0 == UInt8(ascii: "-") || $0.isLetterOrDigit }
    }

    /// Somebody known by number or by name is not the owner for being called so.
    private func isOwner(_ input: ParticipantInput, of share: Share) -> Bool {
        if input.id == Self.ownerID || input.userRecordName == owner.recordName { return true }
        guard input.role == .owner else { return false }
        return !share.participants.contains { known in
            known.id == input.id || (input.userRecordName != nil && known.user?.recordName == input.userRecordName)
        }
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
        if let name = input.userRecordName { return (try Self.user(name), nil) }
        guard input.id != nil else {
            throw .badRequest("A participant needs userIdentity.lookupInfo: an address, a number or a record name.")
        }
        return (nil, nil)
    }
}

extension Share.Participant {
    fileprivate func isMeant(by input: ParticipantInput, _ user: UserID?, _ contact: Share.Contact?) -> Bool {
        if input.id == id { return true }
        // That an address is that of somebody who is here already, their account is not to tell.
        if let contact { return contact == self.contact }
        return user != nil && user == self.user && isNamed
    }
}

extension RelayError {
    static func tooManyParticipants(_ limit: Int) -> RelayError {
        RelayError(
            .badRequest,
            "A share has at most \(limit) participants, its owner among them. Remove somebody first.",
            fineCode: .tooManyParticipants
        )
    }
    fileprivate static let nobody = RelayError.badRequest("A userRecordName is not that of a user.")
    fileprivate static let tooManyBlocked = RelayError.badRequest(
        "At most \(Share.requesterLimit) people can be blocked from a share."
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

extension ShareInput {
    /// By what the accounts of those named are to be looked for; of lists that are refused for their length nobody is.
    package func lookups(participantLimit: Int) -> [UserLookup] {
        let (people, blocked) = (participants ?? [], accessRequests?.blocked ?? [])
        return
            (ShareEdit.isPlausible(people, participantLimit)
            ? people.filter { !$0.isRemoved }.compactMap(\.lookup) : [])
            + (blocked.count <= Share.requesterLimit ? blocked.compactMap { UserLookup(userName: $0) } : [])
    }
}

extension ParticipantInput {
    /// By what the account is to be looked for; `nil` where nothing, or nothing that can be one, says so.
    fileprivate var lookup: UserLookup? {
        if let emailAddress { return AccountRules.canonicalEmail(emailAddress).map { .email($0) } }
        if let phoneNumber { return AccountRules.canonicalPhone(phoneNumber).map { .phone($0) } }
        return userRecordName.flatMap { UserLookup(userName: $0) }
    }
}

extension UserLookup {
    /// Whether a text can be the record name of a user.
    fileprivate static func isUserName(_ name: String) -> Bool {
        name.utf8.count == 33 && name.utf8.first == UInt8(ascii: "_")
    }

    fileprivate init?(userName name: String) {
        guard Self.isUserName(name) else { return nil }
        self = .user(UserID(name))
    }
}

extension UInt8 {
    fileprivate var isLetterOrDigit: Bool {
        switch self {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"):
            true
        default: false
        }
    }
}
