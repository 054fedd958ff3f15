FROM localhost:5000/opm:latest
COPY catalog /configs
# The cache is made here, not in every new pod; "serve" refuses a cache folder that was not.
RUN ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"]
LABEL operators.operatorframework.io.index.configs.v1=/configs
CMD ["serve", "/configs", "--cache-dir=/tmp/cache"]
