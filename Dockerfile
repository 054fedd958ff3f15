# The operator's image: one static binary and its licence. `make build-static` makes dist/roadstead.
FROM scratch

ARG VERSION=dev
LABEL org.opencontainers.image.title="Roadstead" \
      org.opencontainers.image.description="A Kubernetes operator for data services, packaged for OLM" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.source="https://github.com/roadstead/roadstead" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="Roadstead authors"

COPY LICENSE /licenses/LICENSE
COPY dist/roadstead /roadstead

USER 65532:65532
ENTRYPOINT ["/roadstead"]
