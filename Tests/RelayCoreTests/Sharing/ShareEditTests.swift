import Foundation
import Records
import RelayCore
import Synchronization
import Testing
import Wire

@Suite struct ShareEditTests {
    private let owner = UserID("_00000000000000000000000000000001")

    private func input(_ json: String) throws -> ShareInput {
        try ShareInput(try JSONDocument(parsing: Array(json.utf8)).root)
    }

    private static func user(_ number: Int) -> String {
        let digits = String(number, radix: 16)
        return "_" + String(repeating: "0", count: 32 - digits.count) + digits
    }

    /// Returns users with these numbers.
    private static func people(_ range: Range<Int>) -> [UserLookup: UserID] {
        Dictionary(uniqueKeysWithValues: range.map { (.user(UserID(user($0))), UserID(user($0))) })
    }

    private static func list(_ range: Range<Int>, removed: Bool = false) -> String {
        let status = removed ? "REMOVED" : "INVITED"
        let people = range.map {
            #"{"acceptanceStatus":"\#(status)","userIdentity":{"userRecordName":"\#(user($0))"}}"#
        }
        return people.joined(separator: ",")
    }

    /// A request of 4 MiB can name thirty thousand participants.
    ///
    /// It is refused before the names are compared with each other.
    @Test func tooManyParticipantsAreRefusedBeforeAnyIsProcessed() throws {
        let made = Mutex(0)
        let people = Self.people(2..<2_000)
        let edit = ShareEdit(owner: owner, people: people, now: Timestamp(milliseconds: 1), participantLimit: 100) {
            made.withLock { String($0.next()) }
        }
        let many = try input(#"{"participants":[\#(Self.list(2..<2_000))]}"#)
        #expect(throws: RelayError.self) { try edit.make(many, root: nil, shortGUID: "link") }
        #expect(made.withLock { $0 } == 0)
        // Removed participants do not count.
        let few = try input(#"{"participants":[\#(Self.list(2..<20)),\#(Self.list(20..<600, removed: true))]}"#)
        #expect(try edit.make(few, root: nil, shortGUID: "link").participants.count == 18)
    }

    /// The limit was lowered: no participants can be added, but existing ones can be removed.
    @Test func aShareWithMoreThanTheLimitCanStillBeChanged() throws {
        let people = Self.people(2..<60)
        func edit(_ limit: Int) -> ShareEdit {
            ShareEdit(owner: owner, people: people, now: Timestamp(milliseconds: 1), participantLimit: limit) {
                UUID().uuidString
            }
        }
        let share = try edit(100).make(
            try input(#"{"participants":[\#(Self.list(2..<50))]}"#),
            root: nil,
            shortGUID: "link"
        )
        let fewer = try edit(5).update(share, try input(#"{"participants":[\#(Self.list(2..<49))]}"#))
        #expect(fewer.participants.count == 47)
        #expect(throws: RelayError.self) {
            try edit(5).update(share, try input(#"{"participants":[\#(Self.list(2..<51))]}"#))
        }
    }

    @Test func tooManyUsersToBlockAreRefused() throws {
        let edit = ShareEdit(
            owner: owner,
            people: Self.people(2..<60),
            now: Timestamp(milliseconds: 1),
            participantLimit: 100
        ) { "new" }
        func block(_ count: Int) throws -> Share {
            // Repeats the same names.
            let names = (0..<count).map { #""\#(Self.user(2 + $0 % 50))""# }.joined(separator: ",")
            return try edit.make(try input(#"{"accessRequests":{"block":[\#(names)]}}"#), root: nil, shortGUID: "link")
        }
        #expect(try block(100).blocked.count == 50)
        #expect(throws: RelayError.self) { try block(101) }
    }
}

extension Int {
    fileprivate mutating func next() -> Int {
        self += 1
        return self
    }
}
