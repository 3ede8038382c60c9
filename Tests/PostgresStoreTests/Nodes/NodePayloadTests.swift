#if Postgres
    import Testing

    @testable import PostgresStore

    @Suite
    struct NodePayloadTests {
        private let sender = NodeSender(node: "node 1", run: .max)

        private func read(_ payloads: [String]) -> [String] {
            var reader = NodePayloadReader()
            return payloads.flatMap { reader.read($0)?.messages ?? [] }.map { String(decoding: $0, as: UTF8.self) }
        }

        private func payloads(of messages: [String]) -> [String] {
            NodePayload.payloads(of: messages.map { Array($0.utf8) }, from: sender, firstLong: 7)
        }

        @Test("messages of all lengths arrive unchanged, in payloads that PostgreSQL accepts")
        func lengths() {
            for length in [1, 100, 7_960, 7_970, 7_980, 7_999, 8_000, 20_000] {
                for character in ["a", "é", "€", "😀"] {
                    let message = String(repeating: character, count: length)
                    let payloads = payloads(of: ["first", message, message, "last"])
                    #expect(payloads.allSatisfy { $0.utf8.count <= NodePayload.maxBytes })
                    #expect(read(payloads) == ["first", message, message, "last"])
                }
            }
        }

        @Test("short messages share a payload")
        func shared() {
            let messages = (0..<100).map { "\($0) \(String(repeating: "m", count: 150))" }
            let payloads = payloads(of: messages)
            #expect(payloads.count == 2)
            #expect(read(payloads) == messages)
        }

        @Test("a long message of which a part is lost is dropped, and the next one is not")
        func lostPart() {
            let long = String(repeating: "x", count: 30_000)
            var payloads = payloads(of: [long, "after", long + "y"])
            payloads.remove(at: 1)
            #expect(read(payloads) == ["after", long + "y"])
        }

        @Test("payloads of another version and malformed ones are ignored")
        func otherVersion() {
            var payloads = payloads(of: ["message"])
            payloads = payloads.map { "2" + $0.dropFirst() } + ["", "1", "1 2", "1 x node\nm\nz", "1 2 node\np 1\nz"]
            #expect(read(payloads) == [])
        }

        @Test("a sign of life has a sender and no message")
        func sign() {
            var reader = NodePayloadReader()
            let read = reader.read(NodePayload.sign(of: sender))
            #expect(read?.sender == sender)
            #expect(read?.messages == [])
        }
    }
#endif
