import Records
import Testing
import Wire

/// Whoever follows a feed knows each record by the name that a full fetch gives, whatever names participants choose and
/// wherever records move.
///
/// Reliability reference 2 b and f.
@Suite struct ChosenNameFeedTests {
    typealias World = ShareWorld
    static let dave = "dave@example.org"

    /// The titles that one device of a participant knows, by the names of their records.
    private struct Mirror {
        let user: String
        var token: String?
        var titles: [String: String] = [:]

        mutating func sync(_ world: World, limit: Int = 200) async throws {
            for _ in 0..<200 {
                let page = try await world.changes(as: user, since: token, limit: limit)
                if page.text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED" {
                    (token, titles) = (nil, [:])
                    continue
                }
                let names = try World.names(page)
                #expect(Set(names).count == names.count, "\(names)")
                for record in try page.required("records").elements() {
                    titles[try record.required("recordName").string()] =
                        record.flag("deleted") == true ? nil : Self.title(of: record)
                }
                token = page.text("syncToken")
                guard page.flag("moreComing") == true else { return }
            }
            Issue.record("the feed has no end")
        }

        func check(_ world: World, _ comment: String) async throws {
            let page = try await world.changes(as: user)
            let now = try page.required("records").elements().map { record in
                (try record.required("recordName").string(), Self.title(of: record))
            }
            #expect(titles == Dictionary(now) { $1 }, "\(comment), \(user)")
        }

        private static func title(of record: JSONValue) -> String {
            record["fields"]?["title"]?.text("value") ?? ""
        }
    }

    /// Lists of alice's, each shared with some who may change it.
    private func world(_ lists: KeyValuePairs<String, [String]>) async throws -> World {
        let world = try World()
        try await world.makeZone(notes: lists.map(\.key) + ["alone"])
        for (root, people) in lists {
            let list = people.map { World.participant($0, "READ_WRITE") }
            let share = try await world.one(World.share(name: "s-\(root)", root: root, with: list))
            for user in people { try await world.accept(share, as: user) }
        }
        return world
    }

    @Test func whatWasInTwoSharesIsGoneOnce() async throws {
        let world = try await world(["one": [World.bob], "two": [World.bob]])
        try await world.one(HierarchyShareTests.child("item", of: "one"))
        let token = try await world.changes().text("syncToken")
        try await world.one(HierarchyShareTests.child("item", of: "two"))
        try await world.one(World.delete("item"))
        #expect(try World.names(try await world.changes(since: token)) == ["-item"])
    }
}
