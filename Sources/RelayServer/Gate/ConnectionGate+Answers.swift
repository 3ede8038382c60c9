import HTTPTypes
import NIOCore
import RelayAPI

/// How answers get out.
extension ConnectionGate {
    /// An answer and how the connection goes on after it.
    struct Answer {
        var response: APIResponse
        var persistence: ResponseBytes.Persistence
        /// The request was HEAD.
        var omitsBody: Bool

        /// Lends what follows the head.
        func withSentBody<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
            guard !omitsBody, ResponseBytes.hasBody(response) else {
                return body(UnsafeRawBufferPointer(start: nil, count: 0))
            }
            return response.withBody(body)
        }
    }

    /// Writes a whole answer after which the connection goes on.
    ///
    /// Head and body go to the system from where they stand, in one call. The way through the channel takes a copy of both,
    /// and for a small answer half as much time again as the call.
    func send(_ answer: Answer, on context: ChannelHandlerContext) {
        if direct == nil, !isSecure { direct = DirectSend(context) }
        guard let direct else {
            context.writeAndFlush(wrapOutboundOut(bytes(of: answer, context)), promise: nil)
            return
        }
        loop.headBytes.clear()
        ResponseBytes.writeHead(
            answer.response,
            persistence: answer.persistence,
            date: loop.dateText,
            into: &loop.headBytes
        )
        let rest = loop.headBytes.withUnsafeReadableBytes { head in
            answer.withSentBody { body in unsent(head, body, after: direct.send(head, then: body)) }
        }
        guard let rest else { return }
        self.direct = nil
        context.writeAndFlush(wrapOutboundOut(rest), promise: nil)
    }

    /// What the system has not taken; `nil` where it has taken all.
    private func unsent(
        _ head: UnsafeRawBufferPointer,
        _ body: UnsafeRawBufferPointer,
        after taken: Int
    ) -> ByteBuffer? {
        let left = head.count + body.count - taken
        guard left > 0 else { return nil }
        var rest = ByteBuffer()
        rest.reserveCapacity(left)
        rest.writeBytes(head.dropFirst(taken))
        rest.writeBytes(body.dropFirst(max(0, taken - head.count)))
        return rest
    }

    /// The whole answer in one buffer.
    func bytes(of answer: Answer, _ context: ChannelHandlerContext) -> ByteBuffer {
        ResponseBytes.write(
            answer.response,
            persistence: answer.persistence,
            date: loop.dateText,
            omitsBody: answer.omitsBody,
            allocator: context.channel.allocator
        )
    }

    /// The answer to a request that goes no further, which is noted with it.
    func bytes(of refusal: Refusal, omitsBody: Bool, _ context: ChannelHandlerContext) -> ByteBuffer {
        let id = loop.door.requestID()
        loop.door.onRefusal(refusal.noted(as: id))
        var headers: HTTPFields = [.contentType: "application/json; charset=UTF-8", .requestUUID: id]
        if let seconds = refusal.retryAfter { headers[.retryAfter] = String(seconds) }
        if refusal == .methodNotServed { headers[.allow] = "GET, POST, OPTIONS" }
        return ResponseBytes.write(
            APIResponse(
                status: .init(code: refusal.status),
                headers: headers,
                body: Array(refusal.body(requestID: id).utf8)
            ),
            persistence: .close,
            date: loop.dateText,
            omitsBody: omitsBody,
            allocator: context.channel.allocator
        )
    }
}
