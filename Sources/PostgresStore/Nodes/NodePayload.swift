#if Postgres
    /// Messages between nodes as the payloads of notifications, which are short texts.
    ///
    /// A payload holds several messages, or a part of a long one. Its first line is `VERSION RUN NODE`, and the second `m`
    /// in front of messages, one a line, or `p NUMBER PART PARTS` in front of a part. With the first line alone, it only
    /// shows that the node is there.
    enum NodePayload {
        /// Grows if a node of the former version could misread a payload.
        static let version = 1

        /// PostgreSQL's limit for the bytes of a payload.
        static let maxBytes = 7_999

        /// Packs messages into payloads, in their order.
        ///
        /// - Parameters:
        ///   - messages: UTF-8 texts without line breaks.
        ///   - sender: the node and its run.
        ///   - firstLong: the number of the first long message; those of one run must differ.
        /// - Returns: the payloads.
        static func payloads(of messages: [[UInt8]], from sender: NodeSender, firstLong: UInt64) -> [String] {
            var payloads: [String] = []
            let head = Array("\(version) \(sender.run) \(sender.node)\n".utf8)
            var open: [UInt8] = []
            func close() {
                if !open.isEmpty { payloads.append(String(decoding: head + [UInt8(ascii: "m")] + open, as: UTF8.self)) }
                open = []
            }
            var long = firstLong
            for message in messages {
                if head.count + 1 + open.count + 1 + message.count > maxBytes { close() }
                if head.count + 2 + message.count <= maxBytes {
                    open.append(UInt8(ascii: "\n"))
                    open += message
                } else {
                    let parts = parts(of: message, maxBytes: maxBytes - head.count - 64)
                    for (place, part) in parts.enumerated() {
                        let text = head + Array("p \(long) \(place) \(parts.count)\n".utf8) + part
                        payloads.append(String(decoding: text, as: UTF8.self))
                    }
                    long += 1
                }
            }
            close()
            return payloads
        }

        /// Returns the payload that only shows that a node is there.
        static func sign(of sender: NodeSender) -> String { "\(version) \(sender.run) \(sender.node)\n" }

        /// Cuts between characters, as each part is a text.
        private static func parts(of message: [UInt8], maxBytes: Int) -> [ArraySlice<UInt8>] {
            var parts: [ArraySlice<UInt8>] = []
            var rest = message[...]
            while !rest.isEmpty {
                var end = min(rest.startIndex + maxBytes, rest.endIndex)
                while end < rest.endIndex, end > rest.startIndex + 1, rest[end] & 0xC0 == 0x80 { end -= 1 }
                parts.append(rest[..<end])
                rest = rest[end...]
            }
            return parts
        }
    }

    /// A node while it runs.
    struct NodeSender: Hashable {
        var node: String
        /// Drawn when the node starts.
        var run: UInt64
    }

    /// Reads payloads, and joins the parts of long messages.
    struct NodePayloadReader {
        private struct Long {
            var number: UInt64
            var count: Int
            var parts: [Int: Substring] = [:]
        }

        /// The long message of each sender that is being received; a sender sends one after the other.
        private var open: [NodeSender: Long] = [:]

        /// The sender of a payload and the messages that are complete with it; `nil` for a payload of another version.
        mutating func read(_ payload: String) -> (sender: NodeSender, messages: [[UInt8]])? {
            var lines = payload.split(separator: "\n", maxSplits: 2, omittingEmptySubsequences: false)
            let head = lines.removeFirst().split(separator: " ", maxSplits: 2)
            guard head.count == 3, head[0] == "\(NodePayload.version)", let run = UInt64(head[1]) else { return nil }
            let sender = NodeSender(node: String(head[2]), run: run)
            guard lines.count == 2, let kind = lines.first else { return (sender, []) }
            if kind == "m" { return (sender, lines[1].split(separator: "\n").map { Array($0.utf8) }) }
            let words = kind.split(separator: " ")
            guard words.count == 4, words[0] == "p", let number = UInt64(words[1]), let place = Int(words[2]),
                let count = Int(words[3])
            else { return (sender, []) }
            var long = open[sender].flatMap { $0.number == number ? $0 : nil } ?? Long(number: number, count: count)
            long.parts[place] = lines[1]
            open[sender] = long.parts.count == count ? nil : long
            guard long.parts.count == count else { return (sender, []) }
            return (sender, [(0..<count).flatMap { long.parts[$0].map { Array($0.utf8) } ?? [] }])
        }

        /// Forgets what was received in part.
        mutating func removeAll() { open = [:] }
    }
#endif
