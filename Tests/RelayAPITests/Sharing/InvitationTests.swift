import Records
import Testing
import Wire

/// Invitations: the people they are for, and what they reveal.
@Suite struct InvitationTests {
    typealias World = ShareWorld

    @Test func anInviteeWithoutAnAccountJoinsAfterGettingOne() async throws {
        let world = try World()
        try await world.makeZone()
        let share = try await world.shareZone(accepting: false)
        let before = try world.participants(of: share)[1]
        #expect(try before.required("userIdentity").text("userRecordName") == nil)
        // The user's first request links the invitations for their address to them.
        let bob = try await world.name(of: World.bob)
        let joined = try await world.accept(share, as: World.bob)
        #expect(try joined.required("share").required("currentUserParticipant").text("permission") == "READ_ONLY")
        let after = try world.participants(of: try await world.record(Share.zoneWideName))[1]
        #expect(try after.required("userIdentity").text("userRecordName") == bob)
        #expect(after["invitationURL"] == nil)
    }

    @Test func anInvitationURLAdmitsAUserWithAnotherAddress() async throws {
        let world = try World()
        try await world.makeZone()
        let share = try await world.shareZone(accepting: false)
        let link = try #require(share.text("shortGUID"))
        let refused = try await world.open(link, as: World.carol, by: "accept")
        #expect(refused.text("ckErrorCode") == "PARTICIPANT_MAY_NEED_VERIFICATION")
        let hint = try #require(try refused.required("potentialMatchList").elements().first)
        #expect(try hint.required("contactInformation").text("emailAddress") == "b…@example.org")
        let own = try #require(try world.participants(of: share)[1].text("invitationURL"))
        let forged = own.dropLast() + (own.hasSuffix("A") ? "B" : "A")
        #expect(try await world.open(String(forged), as: World.carol, by: "accept").text("serverErrorCode") != nil)
        let joined = try await world.open(own, as: World.carol, by: "accept")
        #expect(joined.text("participantStatus") == "ACCEPTED")
        #expect(try World.names(try await world.changes(as: World.carol)).contains("a"))
        // The link was for one person.
        #expect(try await world.open(own, as: "dave", by: "accept").text("serverErrorCode") == "ACCESS_DENIED")
    }

    @Test func anInvitationURLIsInvalidAfterRemovalAndReinvitation() async throws {
        let world = try World()
        try await world.makeZone()
        let share = try await world.shareZone(accepting: false)
        let old = try #require(try world.participants(of: share)[1].text("invitationURL"))
        try await world.one(World.share("forceUpdate", with: []))
        #expect(try await world.open(old, as: World.carol, by: "accept").text("serverErrorCode") == "ACCESS_DENIED")
        try await world.one(World.share("forceUpdate", with: [World.participant(World.bob)]))
        #expect(try await world.open(old, as: World.carol, by: "accept").text("serverErrorCode") == "ACCESS_DENIED")
        try await world.accept(share, as: World.bob)
    }

    @Test(
        "an invitation reaches the account whose address has its domain in the other spelling",
        arguments: [
            ("fay@xn--bcher-kva.example", "Fay@b\u{FC}cher.example"),
            ("fay@xn--bcher-kva.example", "fay@bu\u{308}cher.example."),
            ("fay@XN--BCHER-KVA.example", "fay@B\u{DC}CHER.example"),
        ]
    )
    func spelledAddresses(account: String, invited: String) async throws {
        for knowsThem in [true, false] {
            let world = try World()
            try await world.makeZone()
            if knowsThem { _ = try await world.name(of: account) }
            let share = try await world.one(World.share(with: [World.participant(invited)]))
            let joined = try await world.accept(share, as: account)
            #expect(try joined.required("share").required("currentUserParticipant").text("permission") == "READ_ONLY")
            // An invitation in the other spelling is for the same participant.
            let again = try await world.one(World.share("forceUpdate", with: [World.participant(account)]))
            #expect(try world.participants(of: again).count == 2)
        }
    }

    @Test("an invitation by a number without its country code is refused with the reason")
    func nationalNumbers() async throws {
        let world = try World()
        try await world.makeZone()
        let invitation = #"{"permission":"READ_ONLY","userIdentity":{"lookupInfo":{"phoneNumber":"030 1234567"}}}"#
        let answer = try await world.modify([World.share(with: [invitation])], atomic: false)
        let reason =
            try answer.code.map { _ in answer.json.text("reason") } ?? answer.items("records").first?.text("reason")
        #expect(reason?.contains("country") == true, "\(reason ?? "taken")")
    }

    @Test func peopleAreInvitedByRecordNameAndByNumber() async throws {
        let world = try World()
        try await world.makeZone()
        let bob = try await world.name(of: World.bob)
        func lookup(_ key: String, _ value: String) -> String {
            #"{"permission":"READ_WRITE","userIdentity":{"lookupInfo":{"\#(key)":"\#(value)"}}}"#
        }
        let share = try await world.one(
            World.share(with: [lookup("userRecordName", bob), lookup("phoneNumber", "+49 30 123 45 67")])
        )
        let participants = try world.participants(of: share)
        #expect(try participants[1].required("userIdentity").text("userRecordName") == bob)
        #expect(
            try participants[2].required("userIdentity").required("lookupInfo").text("phoneNumber") == "+49301234567"
        )
        try await world.accept(share, as: World.bob)
        try await world.one(World.save("a"), in: "shared", as: World.bob)
        for bad in [lookup("userRecordName", "bob"), lookup("emailAddress", "nobody"), lookup("phoneNumber", "12")] {
            #expect(try await world.refusal(World.share("forceUpdate", with: [bad])) == "BAD_REQUEST")
        }
    }

    @Test func participantsDoNotSeeEachOthersAddresses() async throws {
        let world = try World()
        try await world.makeZone()
        let share = try await world.shareZone(accepting: false)
        let list = try world.participants(of: share).map(\.source) + [World.participant(World.carol)]
        try await world.one(World.share("forceUpdate", with: list))
        try await world.accept(share, as: World.bob)
        var seen = try await world.record(Share.zoneWideName, in: "shared", as: World.bob)
        // Carol has not joined yet.
        #expect(try world.participants(of: seen).count == 2)
        try await world.accept(share, as: World.carol)
        seen = try await world.record(Share.zoneWideName, in: "shared", as: World.bob)
        let carol = try #require(try world.participants(of: seen).last)
        #expect(try carol.required("userIdentity").text("userRecordName") == (try await world.name(of: World.carol)))
        #expect(!carol.source.contains("example.org"))
        #expect(try seen.required("currentUserParticipant").source.contains(World.bob))
    }

    @Test func anAdministratorManagesTheOtherParticipants() async throws {
        let world = try World()
        try await world.makeZone()
        let admin = World.participant(World.bob, "READ_WRITE").replacing("USER", with: "ADMINISTRATOR")
        let share = try await world.one(World.share(with: [admin]))
        try await world.accept(share, as: World.bob)
        let seen = try await world.record(Share.zoneWideName, in: "shared", as: World.bob)
        #expect(try seen.required("currentUserParticipant").text("type") == "ADMINISTRATOR")
        let list = try world.participants(of: seen).map(\.source) + [World.participant(World.carol)]
        let tag = seen.text("recordChangeTag")
        let changed = try await world.one(
            World.share("update", tag: tag, with: list),
            in: "shared",
            as: World.bob
        )
        #expect(try world.participants(of: changed).count == 3)
        try await world.accept(share, as: World.carol)
        #expect(
            try await world.refusal(World.share("forceUpdate", with: []), in: "shared", as: World.carol)
                == "ACCESS_DENIED"
        )
        // Only the owner can end the share. Another administrator who deletes it leaves.
        try await world.one(World.delete(Share.zoneWideName), in: "shared", as: World.bob)
        #expect(try await world.zones().names == [])
        #expect(try await world.zones(as: World.carol).names == ["Notes"])
    }

    /// The right to manage participants does not include the right to write.
    @Test func anAdministratorNeedNotBeAllowedToWrite() async throws {
        let world = try World()
        try await world.makeZone()
        let admin = World.participant(World.bob, "READ_ONLY").replacing("USER", with: "ADMINISTRATOR")
        let share = try await world.one(World.share(with: [admin]))
        try await world.accept(share, as: World.bob)
        let seen = try await world.record(Share.zoneWideName, in: "shared", as: World.bob)
        let list = try world.participants(of: seen).map(\.source) + [World.participant(World.carol)]
        let update = World.share("update", tag: seen.text("recordChangeTag"), with: list)
        #expect(try world.participants(of: try await world.one(update, in: "shared", as: World.bob)).count == 3)
        #expect(try await world.refusal(World.save("a"), in: "shared", as: World.bob) == "ACCESS_DENIED")
    }

    @Test func anInvitationDoesNotRevealWhetherTheInviteeHasAnAccount() async throws {
        let world = try World()
        try await world.makeZone()
        _ = try await world.name(of: World.bob)
        let share = try await world.one(
            World.share(with: [World.participant(World.bob), World.participant("nobody@example.org")])
        )
        // One invitee has an account here and the other one does not; the owner cannot tell.
        for participant in try world.participants(of: share).dropFirst() {
            let identity = try participant.required("userIdentity")
            #expect(identity.text("userRecordName") == nil && identity["nameComponents"] == nil)
        }
    }

    /// A third person with the link gets the same response, with or without an account behind the address.
    @Test func theLinkDoesNotRevealWhetherTheInviteeHasAnAccount() async throws {
        var told: [[String?]] = []
        for hasAccount in [true, false] {
            let world = try World()
            try await world.makeZone()
            if hasAccount { _ = try await world.name(of: World.bob) }
            let link = try #require(try await world.shareZone(accepting: false).text("shortGUID"))
            let refused = try await world.open(link, as: World.carol)
            let hints = try refused.required("potentialMatchList").elements()
            let addresses = try hints.map { try $0.required("contactInformation").text("emailAddress") }
            told.append([refused.text("ckErrorCode"), refused.text("reason")] + addresses)
        }
        #expect(told[0] == told[1])
    }

    /// An invitee's first visit to the container, without joining, changes nothing for the owner.
    @Test func anInviteesFirstVisitIsNotRevealed() async throws {
        let world = try World()
        try await world.makeZone()
        let share = try await world.shareZone(accepting: false)
        let token = try await world.changes(as: "alice", in: "private").text("syncToken")
        let bob = try await world.name(of: World.bob)
        let after = try await world.record(Share.zoneWideName)
        #expect(after.text("recordChangeTag") == share.text("recordChangeTag"))
        #expect(!after.source.contains(bob))
        #expect(try World.names(try await world.changes(as: "alice", since: token, in: "private")).isEmpty)
    }

    /// Two contacts of one person are merged only when the person joins.
    @Test func invitingSomebodyInTwoWaysDoesNotRevealThatTheyAreOnePerson() async throws {
        let world = try World()
        try await world.makeZone()
        let bob = try await world.name(of: World.bob)
        let named = #"{"permission":"READ_WRITE","userIdentity":{"lookupInfo":{"userRecordName":"\#(bob)"}}}"#
        let both = [named, World.participant(World.bob, "READ_WRITE")]
        let share = try await world.one(World.share(with: both))
        #expect(try world.participants(of: share).count == 3)
        try await world.accept(share, as: World.bob)
        var seen = try await world.record(Share.zoneWideName)
        #expect(try world.participants(of: seen).count == 2)
        // Participants who joined are listed by name only.
        let people = try world.participants(of: seen).map(\.source) + [World.participant(World.bob, "READ_ONLY")]
        seen = try await world.one(World.share("forceUpdate", with: people))
        #expect(try world.participants(of: seen).count == 3)
        let own = try await world.record(Share.zoneWideName, in: "shared", as: World.bob)
        #expect(try own.required("currentUserParticipant").text("acceptanceStatus") == "ACCEPTED")
        try await world.accept(share, as: World.bob)
        try await world.one(World.save("a"), in: "shared", as: World.bob)
    }

    /// Each stored name takes space, and callers can invent any number of names.
    @Test func unknownUserRecordNamesAreNotStored() async throws {
        let world = try World()
        try await world.makeZone()
        let bob = try await world.name(of: World.bob)
        func named(_ name: String) -> String { #"{"userIdentity":{"lookupInfo":{"userRecordName":"\#(name)"}}}"# }
        let nobody = "_" + String(repeating: "0", count: 32)
        #expect(try await world.refusal(World.share(with: [named(bob), named(nobody)])) == "BAD_REQUEST")
        let share = try await world.one(World.share(with: [named(bob)]))
        #expect(try world.participants(of: share).count == 2)
        let block =
            #"{"operationType":"forceUpdate","record":{"recordName":"\#(Share.zoneWideName)","#
            + #""recordType":"cloudkit.share","fields":{},"accessRequests":{"block":["\#(nobody)","\#(bob)"]}}}"#
        let blocked = try await world.one(block).required("accessRequests").required("blocked").elements()
        #expect(blocked.compactMap { $0.text("userRecordName") } == [bob])
    }
}
